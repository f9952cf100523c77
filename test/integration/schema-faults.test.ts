/**
 * Faults of the schema: code of the database names what does not exist, or itself. They are errors
 * of the server, with the function in the log. The same mistakes of a request, and what a function
 * raises on purpose, stay errors of the client.
 */
import t, { type Test } from 'tap'
import { connectAgent, callTool } from '../support/mcp.ts'
import * as op from '../support/operations.ts'
import { isTaken } from '../support/runs.ts'
import { on, postBatch } from '../support/shorthand.ts'
import { useService, type Answer } from '../support/service.ts'

/** A function of each kind for each mistake, in both languages. */
const mistakes = {
  table: ['42P01', 'select count(*)::int from missing_table'],
  column: ['42703', 'select missing_column from facts'],
  function: ['42883', 'select missing_function(1)'],
  operator: ['42883', "select 1 where point '(1,1)' = point '(1,1)'"],
  schema: ['3F000', 'select missing_schema.f()'],
  type: ['42704', "select '1'::missing_type::int"],
  syntax: ['42601', 'select select'],
  limit: ['42804', 'select n from facts order by 1 limit true']
} as const
const functionsOf = ([name, [, query]]: readonly [string, readonly [string, string]]): string => `
  create function plpgsql_${name}() returns int language plpgsql as
    $$ begin return (${query}); end $$;
  create function sql_${name}() returns int language sql as $$ ${query} $$;
  create function on_${name}() returns trigger language plpgsql as
    $$ begin perform plpgsql_${name}(); return new; end $$;
  create table before_${name} (n int);
  create trigger before before insert or update or delete on before_${name}
    for each row execute function on_${name}();
  create table late_${name} (n int);
  create constraint trigger late after insert on late_${name} deferrable initially deferred
    for each row execute function on_${name}();
  ${['plpgsql', 'sql'].map(language => `
    create view ${language}_view_${name} as select ${language}_${name}() as n;
    create table ${language}_default_${name} (n int default ${language}_${name}(), m int);
    create table ${language}_check_${name} (n int check (n > ${language}_${name}()));
    create table ${language}_policy_${name} (n int);
    insert into ${language}_policy_${name} values (1);
    alter table ${language}_policy_${name} enable row level security;
    create policy p on ${language}_policy_${name} using (n = ${language}_${name}());`).join('')}`

const schema = `
  set check_function_bodies = off;
  create table facts (n int, thing regclass, procedure regprocedure, query tsquery);
  insert into facts (n) values (1);
  ${Object.entries(mistakes).map(functionsOf).join('')}
  create table circle (n int);
  alter table circle enable row level security;
  create policy p on circle using (exists (select from circle));
  create view ring_a as select 1 as n;
  create view ring_b as select * from ring_a;
  create or replace view ring_a as select * from ring_b;
  create function deep() returns trigger language plpgsql as
    $$ begin insert into endless values (new.n); return new; end $$;
  create table endless (n int);
  create trigger deep before insert on endless for each row execute function deep();
  create function unassigned() returns int language plpgsql as
    $$ declare r record; begin return r.n; end $$;
  create function chosen(tablename text) returns int language plpgsql as
    $$ declare n int; begin execute 'select n from ' || tablename into n; return n; end $$;
  create function said() returns int language plpgsql as
    $$ begin raise undefined_table using message = 'no such list'; end $$;
  create function said_on() returns trigger language plpgsql as
    $$ begin perform said(); return new; end $$;
  create table saying (n int);
  create trigger say before insert on saying for each row execute function said_on();
  create function divided() returns int language sql as 'select 1 / count(*)::int from saying';
  create function strict() returns int language plpgsql as
    $$ declare n int; begin select s.n into strict n from saying s; return n; end $$;`

const parameters = op.rowsOf({ n: { type: 'integer' } }, 'items')
const batches = {
  named: { operations: [op.call('o', 'plpgsql_table', {})] },
  load: {
    params: parameters,
    operations: [op.insert('o', 'before_table', '$params.items', { returning: [] })]
  }
}
const env = { MCP: 'on', MAX_UPLOAD_ROWS: '10', MAX_STREAM_ROWS: '10' }
const { log, post, run, url, ...service } = await useService(t, { schema, env, batches })

interface Fault {
  readonly sqlstate: string
  readonly reason: RegExp
  readonly place?: object
}

/** Asserts that the error of a response is a fault of the schema, and that the log names it. */
function isFault (t: Test, { status, body }: Answer, fault: Fault, title: string): void {
  const { sqlstate, reason, place = { op: 'o', index: 0 } } = fault
  const { message, request_id: id, ...error } = body.error
  t.strictSame({ status, ...error }, {
    status: 500,
    type: 'execution_error',
    code: 'schema_fault',
    committed: false,
    sqlstate,
    retryable: false,
    ...place
  }, `${title}: ${message}`)
  t.match(log.find(line => line['request_id'] === id && line['msg'] === 'request completed'), {
    level: 50, code: 'schema_fault', sqlstate, reason
  }, title)
}

const twoRows = (table: string) => op.insert('o', table, [{ n: 1 }, { n: 2 }])

for (const [i, [name, [sqlstate]]] of Object.entries(mistakes).entries()) {
  t.test(`a function with a wrong ${name} is a fault of the schema`, async t => {
    const update = (table: string) => op.update('o', table, { set: { n: 2 }, all: true })
    const cases = ['plpgsql', 'sql'].flatMap(language => {
      const reason = new RegExp(`^${language}_${name}\\b`)
      return [
        op.call('o', `${language}_${name}`, {}),
        op.select('o', `${language}_view_${name}`),
        op.insert('o', `${language}_default_${name}`, [{ m: 1 }, { m: 2 }]),
        twoRows(`${language}_check_${name}`),
        op.select('o', `${language}_policy_${name}`),
        twoRows(`${language}_policy_${name}`),
        update(`${language}_policy_${name}`),
        op.delete('o', `${language}_policy_${name}`, { all: true }),
        op.insert('o', 'facts', undefined, {
          from: { table: `${language}_view_${name}` }, columns: { n: { $col: 'n' } }
        }),
        op.select('o', 'facts', {
          where: { n: { eq: 1 } },
          with: {
            more: { table: `${language}_policy_${name}`, on: { n: 'n' } }
          }
        })
      ].map(operation => [operation, reason] as const)
    })
    const all = [...cases, [twoRows(`before_${name}`), new RegExp(`^plpgsql_${name}\\b`)] as const]
    for (const [operation, reason] of all.filter((_, j) => isTaken(i + j, 3))) {
      const title = JSON.stringify(operation)
      isFault(t, await post([operation]), { sqlstate, reason }, title)
      // The second time the statement is prepared, and another operation has run before.
      const later = { sqlstate, reason, place: { op: 'o', index: 1 } }
      isFault(t, await post([op.select('s', 'facts'), operation]), later, title)
    }
    const atCommit = { op: null, index: null }
    const late = { sqlstate, reason: new RegExp(`^plpgsql_${name}\\b`), place: atCommit }
    isFault(t, await post([twoRows(`late_${name}`)]), late, 'at COMMIT')
  })
}

t.test('recursion without end is a fault of the schema', async t => {
  const cases = [
    [op.select('o', 'circle'), '42P17', /"circle"/],
    [twoRows('circle'), '42P17', /"circle"/],
    [op.select('o', 'ring_a'), '42P17', /"ring_[ab]"/],
    [twoRows('endless'), '54001', /^deep\(\)/],
    [op.call('o', 'unassigned', {}), '55000', /^unassigned\(\)/],
    [op.call('o', 'chosen', { tablename: 'nowhere' }), '42P01', /^chosen\(text\)/]
  ] as const
  for (const [operation, sqlstate, reason] of cases) {
    isFault(t, await post([operation]), { sqlstate, reason }, JSON.stringify(operation))
  }
})

t.test('named batches, uploads, streams and tools report a fault of the schema', async t => {
  const fault = { sqlstate: '42P01', reason: /^plpgsql_table\(\): / }
  isFault(t, await run('named', {}), fault, 'named')
  isFault(t, await run('load', { items: [{ n: 1 }, { n: 2 }] }), fault, 'rows')
  const upload = await postBatch(`${url}/batches/load`, '{"n":1}\n{"n":2}\n', {
    'content-type': 'application/x-ndjson'
  })
  isFault(t, upload, fault, 'upload')
  const stream = await post([op.select('o', 'plpgsql_view_table')], {
    headers: { accept: 'application/x-ndjson' }
  })
  isFault(t, stream, fault, 'stream')
  const client = await connectAgent(t, { url })
  t.match(await callTool(client, 'named'), {
    isError: true, value: { committed: false, error: { code: 'schema_fault', sqlstate: '42P01' } }
  })
})

t.test('with ERROR_VERBOSITY=verbose the hint names the function', async t => {
  const verbose = await useService(t, {
    ...on(service.database), env: { ERROR_VERBOSITY: 'verbose' }
  })
  const { body } = await verbose.post([op.call('o', 'plpgsql_table', {})])
  t.match(body.error, {
    code: 'schema_fault', hint: 'plpgsql_table(): relation "missing_table" does not exist'
  })
})

t.test('a mistake of the request is an error of the client', async t => {
  const column = { where: { nope: { eq: 1 } } }
  const cases = [
    [op.select('o', 'nowhere'), 404, 'undefined_table'],
    [op.select('o', 'facts', column), 400, 'undefined_column'],
    [op.call('o', 'no_function', {}), 404, 'undefined_function'],
    [op.call('o', 'plpgsql_table', { x: 1 }), 404, 'undefined_function'],
    [op.insert('o', 'facts', [{ n: 1, nope: 1 }]), 400, 'undefined_column'],
    // The values name objects of the database.
    [op.insert('o', 'facts', [{ thing: 'nowhere' }]), 404, 'undefined_table'],
    [op.insert('o', 'facts', [{ procedure: 'nothing()' }]), 404, 'undefined_function'],
    [op.update('o', 'facts', { set: { thing: 'nowhere' }, all: true }), 404, 'undefined_table'],
    [op.insert('o', 'facts', [{ query: '( &' }]), 400, 'syntax_error'],
    // What a function raises on purpose, or what depends on data.
    [op.call('o', 'said', {}), 404, 'undefined_table'],
    [twoRows('saying'), 404, 'undefined_table'],
    [op.call('o', 'divided', {}), 400, 'division_by_zero'],
    [op.call('o', 'strict', {}), 400, 'no_data_found']
  ] as const
  for (const [operation, status, code] of cases) {
    for (const batch of [[operation], [op.select('s', 'facts'), operation]]) {
      const { body, ...answer } = await post(batch)
      const { message, ...error } = body.error
      t.match({ status: answer.status, ...error }, {
        status, type: 'execution_error', code, op: 'o', index: batch.length - 1
      }, `${JSON.stringify(operation)}: ${message}`)
    }
  }
})
