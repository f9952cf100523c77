/**
 * Parts of schemas with triggers that several tests use.
 */

/** An insert into `trap` runs the commands of the row. */
export const trapSchema = `
  create table trap (commands text[]);
  create function trap() returns trigger language plpgsql as $$
    declare command text;
    begin
      foreach command in array new.commands loop execute command; end loop;
      return new;
    end $$;
  create trigger trap after insert on trap for each row execute function trap();`

/**
 * `moody()` raises an error, by default a serialization failure, as often as the row says; the
 * sequence `tries` counts the calls. The test creates the trigger.
 */
export const moodySchema = `
  create sequence tries;
  create table moody (times int, code text default '40001');
  create function moody() returns trigger language plpgsql as $$
    begin
      if nextval('tries') <= new.times then raise exception using errcode = new.code,
        message = 'not now'; end if;
      return new;
    end $$;`
