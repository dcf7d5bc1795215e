// QR codes (ISO/IEC 18004) of texts up to 213 octets: byte mode, error correction M.

/** For each version: codewords of correction in a block, then blocks and data octets of each. */
const BLOCKS: readonly (readonly [number, ...number[][]])[] = [
  [10, [1, 16]],
  [16, [1, 28]],
  [26, [1, 44]],
  [18, [2, 32]],
  [24, [2, 43]],
  [16, [4, 27]],
  [18, [4, 31]],
  [22, [2, 38], [2, 39]],
  [22, [3, 36], [2, 37]],
  [26, [4, 43], [1, 44]],
];

type Grid = boolean[][];

const EXP: number[] = [];
const LOG: number[] = [];
for (let power = 0, value = 1; power < 255; power += 1) {
  EXP[power] = value;
  LOG[value] = power;
  value = value < 128 ? value * 2 : (value * 2) ^ 285;
}

function times(a: number, b: number): number {
  return a && b ? (EXP[((LOG[a] ?? 0) + (LOG[b] ?? 0)) % 255] ?? 0) : 0;
}

/** The codewords of correction of a block (Reed and Solomon). */
function correction(data: readonly number[], count: number): number[] {
  let divisor = [1];
  for (let root = 0; root < count; root += 1) {
    const next = [...divisor, 0];
    divisor.forEach((one, at) => (next[at + 1] = (next[at + 1] ?? 0) ^ times(one, EXP[root] ?? 0)));
    divisor = next;
  }
  const rest = [...data, ...new Array<number>(count).fill(0)];
  for (let at = 0; at < data.length; at += 1) {
    const lead = rest[at] ?? 0;
    divisor.forEach((one, by) => (rest[at + by] = (rest[at + by] ?? 0) ^ times(one, lead)));
  }
  return rest.slice(data.length);
}

function room(version: number): number {
  return (BLOCKS[version - 1] ?? [0]).slice(1).reduce<number>((sum, block) => {
    const [count = 0, octets = 0] = block as number[];
    return sum + count * octets;
  }, 0);
}

/** The bits of the data with their correction, interleaved. */
function codewords(octets: Uint8Array, version: number): number[] {
  const bits: number[] = [];
  const push = (value: number, length: number): void => {
    for (let at = length - 1; at >= 0; at -= 1) bits.push((value >> at) & 1);
  };
  const total = room(version);
  push(4, 4);
  push(octets.length, version < 10 ? 8 : 16);
  octets.forEach((octet) => push(octet, 8));
  push(0, Math.min(4, total * 8 - bits.length));
  while (bits.length % 8) bits.push(0);
  const data: number[] = [];
  for (let at = 0; at < bits.length; at += 8) {
    data.push(bits.slice(at, at + 8).reduce((sum, bit) => sum * 2 + bit, 0));
  }
  for (let pad = 0; data.length < total; pad += 1) data.push(pad % 2 ? 17 : 236);

  const [count, ...groups] = BLOCKS[version - 1] ?? [0];
  const blocks: number[][] = [];
  let from = 0;
  for (const [number = 0, length = 0] of groups) {
    for (let at = 0; at < number; at += 1) {
      blocks.push(data.slice(from, from + length));
      from += length;
    }
  }
  const checks = blocks.map((block) => correction(block, count));
  return [...interleaved(blocks), ...interleaved(checks)];
}

function interleaved(blocks: readonly number[][]): number[] {
  const longest = Math.max(...blocks.map((block) => block.length));
  const out: number[] = [];
  for (let at = 0; at < longest; at += 1) {
    for (const block of blocks) {
      const one = block[at];
      if (one !== undefined) out.push(one);
    }
  }
  return out;
}

/** The remainder of a code of Bose, Chaudhuri and Hocquenghem. */
function remainder(value: number, divisor: number, bits: number): number {
  let rest = value << bits;
  for (let at = 31 - Math.clz32(rest); at >= bits; at = 31 - Math.clz32(rest)) {
    rest ^= divisor << (at - bits);
  }
  return rest;
}

class Code {
  readonly size: number;
  readonly dark: Grid;
  /** Places of patterns, which have no data. */
  readonly taken: Grid;

  constructor(readonly version: number) {
    this.size = version * 4 + 17;
    const grid = (): Grid => Array.from({ length: this.size }, () => new Array(this.size).fill(false));
    this.dark = grid();
    this.taken = grid();
    this.#patterns();
  }

  set(x: number, y: number, dark: boolean): void {
    const [row, marks] = [this.dark[y], this.taken[y]];
    if (!row || !marks || x < 0 || x >= this.size) return;
    row[x] = dark;
    marks[x] = true;
  }

  #finder(x: number, y: number): void {
    for (let dy = -4; dy <= 4; dy += 1) {
      for (let dx = -4; dx <= 4; dx += 1) {
        const ring = Math.max(Math.abs(dx), Math.abs(dy));
        this.set(x + dx, y + dy, ring !== 2 && ring !== 4);
      }
    }
  }

  #patterns(): void {
    const { size, version } = this;
    for (let at = 0; at < size; at += 1) {
      this.set(6, at, at % 2 === 0);
      this.set(at, 6, at % 2 === 0);
    }
    this.#finder(3, 3);
    this.#finder(size - 4, 3);
    this.#finder(3, size - 4);
    const last = size - 7;
    const centres = version === 1 ? [] : version < 7 ? [6, last] : [6, (last + 6) / 2, last];
    for (const x of centres) {
      for (const y of centres) {
        const isCorner = (x === 6 && y === 6) || (x === 6 && y === last) || (x === last && y === 6);
        if (!isCorner) this.#alignment(x, y);
      }
    }
    if (version >= 7) {
      const bits = (version << 12) | remainder(version, 0x1f25, 12);
      for (let at = 0; at < 18; at += 1) {
        const dark = ((bits >> at) & 1) === 1;
        const [far, near] = [size - 11 + (at % 3), Math.floor(at / 3)];
        this.set(far, near, dark);
        this.set(near, far, dark);
      }
    }
    this.format(0);
  }

  #alignment(x: number, y: number): void {
    for (let dy = -2; dy <= 2; dy += 1) {
      for (let dx = -2; dx <= 2; dx += 1) {
        this.set(x + dx, y + dy, Math.max(Math.abs(dx), Math.abs(dy)) !== 1);
      }
    }
  }

  /** Writes the level of correction (M is 0) and the mask. */
  format(mask: number): void {
    const { size } = this;
    const bits = ((mask << 10) | remainder(mask, 0x537, 10)) ^ 0x5412;
    const bit = (at: number): boolean => ((bits >> at) & 1) === 1;
    for (let at = 0; at < 6; at += 1) this.set(8, at, bit(at));
    this.set(8, 7, bit(6));
    this.set(8, 8, bit(7));
    this.set(7, 8, bit(8));
    for (let at = 9; at < 15; at += 1) this.set(14 - at, 8, bit(at));
    for (let at = 0; at < 8; at += 1) this.set(size - 1 - at, 8, bit(at));
    for (let at = 8; at < 15; at += 1) this.set(8, size - 15 + at, bit(at));
    this.set(8, size - 8, true);
  }

  /** Writes the data in its zigzag, under the mask 0 of the standard. */
  fill(data: readonly number[]): void {
    let at = 0;
    for (let right = this.size - 1; right > 0; right -= 2) {
      if (right === 6) right = 5;
      const isUp = ((right + 1) & 2) === 0;
      for (let step = 0; step < this.size; step += 1) {
        const y = isUp ? this.size - 1 - step : step;
        for (const x of [right, right - 1]) {
          if (this.taken[y]?.[x]) continue;
          const bit = ((data[at >> 3] ?? 0) >> (7 - (at & 7))) & 1;
          const row = this.dark[y];
          if (row) row[x] = (bit === 1) !== ((x + y) % 2 === 0);
          at += 1;
        }
      }
    }
  }
}

/** Returns the rows of the code of a text, dark places as `true`; `null` if it is too long. */
export function qrCode(text: string): Grid | null {
  const octets = new TextEncoder().encode(text);
  for (let version = 1; version <= BLOCKS.length; version += 1) {
    if (octets.length > room(version) - (version < 10 ? 2 : 3)) continue;
    const symbol = new Code(version);
    symbol.fill(codewords(octets, version));
    return symbol.dark;
  }
  return null;
}

/** The dark places of a code as the path of an SVG, in a box of as many units as it has rows. */
export function qrPath(code: Grid): string {
  return code
    .flatMap((row, y) => row.map((dark, x) => (dark ? `M${x} ${y}h1v1h-1z` : '')))
    .join('');
}
