CREATE FUNCTION avocet_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('avocet_zone', coalesce(
    (SELECT name FROM domains WHERE id = coalesce(NEW.domain_id, OLD.domain_id)), ''));
  RETURN NULL;
END $$;
CREATE TRIGGER avocet_notify AFTER INSERT OR UPDATE OR DELETE ON records
  FOR EACH ROW EXECUTE FUNCTION avocet_notify();
