/**
 * Triggers that several suites set: parts of a schema.
 */

/** An insert into `trap` runs its commands. */
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
 * `moody()` fails as a serialization failure does as often as the row of `moody` says; `tries`
 * counts. The trigger is the suite's to create.
 */
export const moodySchema = `
  create sequence tries;
  create table moody (times int);
  create function moody() returns trigger language plpgsql as $$
    begin
      if nextval('tries') <= new.times then raise exception using errcode = '40001',
        message = 'not now'; end if;
      return new;
    end $$;`
