// Results of `avocet load --json`, read from files in the browser. Nothing leaves it.

/** The format that this page reads. Later releases may add fields to it. */
export const FORMAT = 'avocet-load/2';
/** Most runs at once: each has a colour of its own, and a column that can still be read. */
export const MOST_RUNS = 8;
/** The lines of runs, by place: colours, and strokes for eyes that do not tell these apart. */
export const COLORS = [
  '--answered', '--failed', '--local', '--rewritten', '--blocked', '--refused', '--malformed', '--dropped',
] as const;
export const DASHES = ['none', '8 3', '2 3', '10 3 2 3', '5 5', '12 4', '2 6', '8 3 2 3 2 3'] as const;
/** Most octets of a file. A run of a minute has about 100 kB. */
export const MOST_OCTETS = 4 << 20;

export interface Run {
  id: number;
  file: string;
  /** Unix seconds. */
  started: number;
  address: string;
  /** The answer to `version.bind`. */
  software: string | null;
  transport: string;
  scenario: string;
  isOpenLoop: boolean;
  /** Queries per second that were asked for; null if there was no such rate. */
  rate: number | null;
  /** The CPU, and the number of its threads. */
  machine: string;
  clients: number;
  sent: number;
  answered: number;
  answeredPerSec: number;
  lost: number;
  /** Between 0 and 1. */
  loss: number;
  wrong: number;
  /** Of a search for the highest rate. */
  highestRate: number | null;
  /** Microseconds of CPU time of the server per answer. */
  cpu: number | null;
  latency: Latency;
  passed: boolean;
  faults: readonly string[];
}

/** Nanoseconds. */
export interface Latency {
  mean: number;
  p50: number;
  p90: number;
  p99: number;
  p999: number;
  max: number;
  /** For each share of the answers, between 0 and 1 and ascending, the maximum of their times in ns. */
  curve: readonly Point[];
}

export interface Point {
  share: number;
  ns: number;
}

/** Why a file is no run: the name of a text, and what it is about. */
export interface Refusal {
  reason: 'large' | 'unreadable' | 'json' | 'other' | 'format' | 'field' | 'again' | 'many';
  detail: string;
}

class Refused extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.reason);
  }
}

type Fields = Record<string, unknown>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Reads fields by their paths, such as `latency.p50_ns`. */
class Reader {
  constructor(private readonly root: Fields) {}

  value(path: string): unknown {
    let at: unknown = this.root;
    for (const name of path.split('.')) at = isFields(at) ? at[name] : undefined;
    return at;
  }

  refuse(path: string): never {
    throw new Refused({ reason: 'field', detail: path });
  }

  number(path: string): number {
    const value = this.value(path);
    return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : this.refuse(path);
  }

  /** A number that may be missing, also with all around it. */
  optional(path: string): number | null {
    const value = this.value(path);
    return value === undefined || value === null ? null : this.number(path);
  }

  text(path: string): string {
    const value = this.value(path);
    return typeof value === 'string' ? value : this.refuse(path);
  }

  optionalText(path: string): string | null {
    const value = this.value(path);
    return value === undefined || value === null ? null : this.text(path);
  }

  flag(path: string): boolean {
    const value = this.value(path);
    return typeof value === 'boolean' ? value : this.refuse(path);
  }

  texts(path: string): string[] {
    const value = this.value(path);
    if (!Array.isArray(value)) return this.refuse(path);
    return value.map(String);
  }

  points(path: string): Point[] {
    const value = this.value(path);
    if (!Array.isArray(value)) return this.refuse(path);
    return value.map((point: unknown) => {
      const [share, ns] = Array.isArray(point) ? (point as unknown[]) : [];
      const isPoint = typeof share === 'number' && share >= 0 && share <= 1 && typeof ns === 'number';
      return isPoint && ns >= 0 ? { share, ns } : this.refuse(path);
    });
  }
}

function parsed(content: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new Refused({ reason: 'json', detail: error instanceof Error ? error.message : '' });
  }
  const format = isFields(value) ? value['format'] : undefined;
  if (!isFields(value) || typeof format !== 'string' || !format.startsWith('avocet-load/')) {
    throw new Refused({ reason: 'other', detail: '' });
  }
  if (format !== FORMAT) throw new Refused({ reason: 'format', detail: format });
  return value;
}

function latency(fields: Reader): Latency {
  return {
    mean: fields.number('latency.mean_ns'),
    p50: fields.number('latency.p50_ns'),
    p90: fields.number('latency.p90_ns'),
    p99: fields.number('latency.p99_ns'),
    p999: fields.number('latency.p999_ns'),
    max: fields.number('latency.max_ns'),
    curve: fields.points('latency.curve'),
  };
}

let lastId = 0;

function read(file: string, content: string): Run {
  const fields = new Reader(parsed(content));
  return {
    id: (lastId += 1),
    file,
    started: fields.number('started_unix_secs'),
    address: fields.text('server.address'),
    software: fields.optionalText('server.version'),
    transport: fields.text('server.transport'),
    scenario: fields.text('scenario'),
    isOpenLoop: fields.flag('pace.open_loop'),
    rate: fields.optional('pace.rate'),
    machine: `${fields.text('machine.cpu')}, ${fields.number('machine.cpus')}`,
    clients: fields.number('pace.clients'),
    sent: fields.number('outcome.sent'),
    answered: fields.number('outcome.answered'),
    answeredPerSec: fields.number('outcome.answered_per_sec'),
    lost: fields.number('outcome.lost'),
    loss: fields.number('outcome.loss'),
    wrong: fields.number('outcome.wrong.total'),
    highestRate: fields.optional('ramp.highest_rate'),
    cpu: fields.optional('server_cpu.total_us'),
    latency: latency(fields),
    passed: fields.flag('passed'),
    faults: fields.texts('faults'),
  };
}

/** The runs that are shown. They stay while other pages are open, and are gone after a reload. */
class Runs {
  all = $state.raw<readonly Run[]>([]);
  refused = $state.raw<readonly (Refusal & { file: string })[]>([]);
  #contents = new Map<number, string>();

  /** Adds files, in the order of their start. What cannot be read is refused with a reason. */
  async add(files: readonly File[]): Promise<void> {
    const refused: (Refusal & { file: string })[] = [];
    const taken: Run[] = [];
    for (const file of files) {
      try {
        taken.push(await this.#read(file, this.all.length + taken.length));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        refused.push({ ...error.refusal, file: file.name });
      }
    }
    this.all = [...this.all, ...taken.sort((one, other) => one.started - other.started)];
    this.refused = refused;
  }

  async #read(file: File, count: number): Promise<Run> {
    if (count >= MOST_RUNS) throw new Refused({ reason: 'many', detail: '' });
    if (file.size > MOST_OCTETS) throw new Refused({ reason: 'large', detail: '' });
    const content = await file.text().catch(() => {
      throw new Refused({ reason: 'unreadable', detail: '' });
    });
    if ([...this.#contents.values()].includes(content)) throw new Refused({ reason: 'again', detail: '' });
    const run = read(file.name, content);
    this.#contents.set(run.id, content);
    return run;
  }

  remove(run: Run): void {
    this.#contents.delete(run.id);
    this.all = this.all.filter((one) => one !== run);
  }

  /** Makes a run the first, with which the others are compared. */
  lead(run: Run): void {
    this.all = [run, ...this.all.filter((one) => one !== run)];
  }

  clear(): void {
    this.#contents.clear();
    this.all = [];
    this.refused = [];
  }
}

export const runs = new Runs();
