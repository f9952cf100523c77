/**
 * The sections of docs/internals/benchmarks.md that explain the figures: contenders, method, limits
 * and how to run it again.
 */
import { contenders } from './contenders.ts'
import { show } from './goals.ts'
import type { BenchRecord } from './record.ts'

export function describeContenders (): string {
  const names = contenders
  return `## Contenders

All contenders use [one schema](../../bench/schema.sql), the same role and the same row-level
security. Each has as many database connections as there are clients, and responds after the COMMIT.
Every Node contender checks the token of every request with \`@fastify/jwt\`, and logs warnings
only, unless its name says otherwise.

| Contender | What it is |
| --- | --- |
| ${names.oneflight.name} | \`node src/main.ts\`, as deployed. It returns the rows of every ` +
    `operation; the others return those of the last one |
| ${names['oneflight with a key'].name} | the same, with a new \`Idempotency-Key\` in every ` +
    `request |
| ${names['named batch'].name} | the same operations as ` +
    `[a file](../../bench/batches/order.json), which a request runs by its name |
| ${names.awaits.name}; ${names['postgres.js'].name} | ` +
    '[peers/postgres-js.ts](../../bench/peers/postgres-js.ts), for single words ' +
    '[peers/words.ts](../../bench/peers/words.ts): a Fastify endpoint with ' +
    `\`sql.begin\`, one statement for role and claims, and each statement awaited |
| ${names['word with duties'].name} | the same with a request id, metrics (fastify-metrics) and ` +
    'one line of log per request. It is compared with ' +
    `${names['oneflight with its log'].name.replace(', w', ' w')} |
| ${names.pg.name} | [peers/pg.ts](../../bench/peers/pg.ts): the same with \`pg\` and named ` +
    `statements |
| ${names['pg pipelined'].name} | the same with \`pipeline: true\`, where only statements that ` +
    `need the id of an earlier one wait for it |
| ${names['function in begin'].name} | [peers/plpgsql.ts](../../bench/peers/plpgsql.ts): a ` +
    'Fastify endpoint with the whole batch as one function, called in `sql.begin` after role ' +
    `and claims |
| ${names['bare function'].name} | the same function as a single statement of the login role, ` +
    `without role or transaction block: the limit |
| ${names.postgraphile.name} | [peers/postgraphile.ts](../../bench/peers/postgraphile.ts): its ` +
    `default preset, with a middleware that runs a request in one transaction |
| pgbench | [peers/order.sql](../../bench/peers/order.sql): the statements of the hand-written ` +
    `endpoint with \`-M prepared\`, in C, without HTTP, tokens or JSON |
| psql | \`insert … select … from json_populate_recordset\` and \`select json_agg\`, each in ` +
    'its own transaction, in a session that already has the role |'
}

/** Where the time of one operation goes. */
export function describeTime (): string {
  return `## Where the time goes

The functions of Node while the service runs selects by key. A box is as wide as its share of the
samples, and stands below the functions that called it.

![Where Node spends its time](benchmarks/flame.svg)
`
}

/** Why a figure may miss its goal. */
export function describeMisses (): string {
  return `Why goals are missed: load, proxy, contender and database share the cores. The slower
these are, the less the round trips decide. PostgreSQL renders all rows as JSON, which costs it more
than to return columns. Node parses and checks a language.`
}

export function describeMethod ({ connections, slices, bulk }: BenchRecord): string {
  return `## Method

- The load is a closed loop of ${connections} kept connections, by
  [autocannon](../../bench/load.ts) in its own process. Each contender is warmed up with
  ${show(slices.warmUpBatches)} batches or fewer. Then the contenders take ${slices.count} slices
  of about ${slices.seconds} s each, in turns. A slice is a fixed number of
  batches, so all of them have a response at its end. Many rows are sent and returned
  ${bulk[0]?.oneflight.length ?? 0} times each, in turns.
- The run fails if the responses of the contenders or the rows in the database differ, or a
  contender returns an error.
- [A proxy](../../bench/delay-proxy.ts) adds the round trip: it delays each direction by half of
  it, for all contenders. The tables show the round trip that \`select 1\` measures.
- Processor time is what the kernel reports for the contender's process and for all processes of
  the PostgreSQL server. Memory is the resident set.
- As numbering without gaps requires, the first statement locks the hot row.`
}

export function describeLimits (): string {
  return `## What this does not show

- Load, contender and database share the cores of one machine: a contender that needs less
  processor time leaves more of it to the database. On separate machines, compare processor time.
- Unfair to Oneflight: it returns the rows of every operation, and collects metrics. pgbench, psql
  and the bare function do without HTTP, tokens or roles.
- Unfair to the others: the hot row is locked first, where hand-written code can often lock it last.
  PostGraphile users would write an order as a custom mutation, which is the PL/pgSQL function.
- Each contender is one process. There is one size of the database, which fits in memory.`
}

export function describeRepetition (): string {
  return `## Run it again

<!-- not run: it takes minutes and writes the record -->
\`\`\`sh
npm run bench                  # all parts, about 25 minutes, writes this page
npm run bench -- --quick       # short slices, for a test; writes nothing
npm run bench hot wire         # of order, hot, words, wire, bulk, large, cost; writes nothing
npm run bench:report           # writes this page from bench/results.json
node bench/flame.ts            # draws flame.svg; a folder of a checkout, a file
npm run bench order -- --round-trips=0,2.5 --against=postgres.js
npm run bench words -- --words=upsert,call --against-checkout=../before
\`\`\`

With \`DATABASE_URL\`, the URL of a superuser, it runs on another server, and creates the database
\`oneflight_bench\` and roles \`oneflight_bench_…\` there until its end.
`
}
