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
security. Each has as many database connections as there are clients, and responds only after the
COMMIT. Every Node contender, ${names.oneflight.name} too, checks the token of every request with
\`@fastify/jwt\`. There are many tokens. Only warnings are logged, unless the name says otherwise.

| Contender | What it is |
| --- | --- |
| ${names.oneflight.name} | \`node src/main.ts\`, as deployed. It returns the rows of every ` +
    `operation; the others return those of the last one |
| ${names['oneflight with a key'].name} | the same, with a new \`Idempotency-Key\` in every ` +
    `request |
| ${names['named batch'].name} | the same operations as ` +
    'a file, such as [that of the order](../../bench/batches/order.json), which a request runs ' +
    `by its name and with parameters |
| ${names.awaits.name}; ${names['postgres.js'].name} | ` +
    '[peers/postgres-js.ts](../../bench/peers/postgres-js.ts), for single words ' +
    '[peers/words.ts](../../bench/peers/words.ts): a Fastify endpoint with ' +
    '`sql.begin`, one statement for role and claims, each statement awaited, and the default ' +
    `settings of the driver |
| ${names['word with duties'].name} | the same with a request id, metrics (fastify-metrics) and ` +
    'one line of log per request, as in production. It is compared with ' +
    `${names['oneflight with its log'].name.replace(', w', ' w')} |
| ${names.pg.name} | [peers/pg.ts](../../bench/peers/pg.ts): the same with \`pg\` and named ` +
    `statements |
| ${names['pg pipelined'].name} | the same with \`pipeline: true\`, where only statements that ` +
    `need the id of an earlier one wait for it |
| ${names['function in begin'].name} | [peers/plpgsql.ts](../../bench/peers/plpgsql.ts): a ` +
    'Fastify endpoint with the whole batch as one function, called in `sql.begin` after role ' +
    `and claims |
| ${names['bare function'].name} | the same function as a single statement of the login role, ` +
    `without role or transaction block. It is not the same service, but the limit |
| ${names.postgraphile.name} | [peers/postgraphile.ts](../../bench/peers/postgraphile.ts): its ` +
    `default preset, with a middleware that runs a request in one transaction |
| pgbench | [peers/order.sql](../../bench/peers/order.sql): the statements of the hand-written ` +
    `endpoint with \`-M prepared\`, in C, without HTTP, tokens or JSON |
| psql | \`insert … select … from json_populate_recordset\` and \`select json_agg\`, each in ` +
    'its own transaction, in a session that already has the role |'
}

/** Figures of services that could not be run beside the others. */
export function describePublished (): string {
  const published = 'https://vb-consulting.github.io/npgsqlrest/performances/'
  return `### Published figures

PostgREST and NpgsqlRest were not run here. These figures are those that
[the authors of NpgsqlRest publish](${published}), from another
machine: 100 clients call one function that returns 10 rows, for 60 s. There is no transaction of
several statements, so the figures cannot be compared with those above, only with each other.

| Service | Requests/s (published) | Divided by the Express endpoint |
| --- | --- | --- |
| NpgsqlRest, compiled ahead of time | 13 030 | 4.9 |
| NpgsqlRest, compiled at run time | 9 372 | 3.5 |
| Express endpoint | 2 671 | 1 |
| PostgREST | 1 205 | 0.45 |`
}

/** Where the time of one operation goes, and what was tried to need less. */
export function describeTime (): string {
  return `## Where the time goes

The functions of Node while the service runs selects by key. A box is as wide as its share of the
samples, and stands below the functions that called it. A narrow box means little time, not few
calls. About a sixth is the write of the response to the socket of the client.

![Where Node spends its time, today](benchmarks/flame.svg)

The same at commit 440cc09, before the ways below:

![Where Node spends its time, before](benchmarks/flame-before.svg)

### What was tried

Processor time of the backend for a select by key, unless it says otherwise: the bytes of a batch,
sent again and again on one connection, in turns.
[One write](../decisions/one-write-in-sql-begin.md) explains the steps.

| Way | Before | After | |
| --- | --- | --- | --- |
| Release advisory locks by FunctionCall, which PostgreSQL does not plan | 178 µs | 161 µs | kept |
| Reset the session in the text of COMMIT AND CHAIN | 161 µs | 154 µs | kept |
| \`search_path\` and timeouts in the startup message, to which RESET ALL returns | ` +
    `154 µs | 144 µs | kept |
| No reset, no comparison of settings and no look for statements that SQL prepared, in ` +
    `batches that run no code of the database (ten connections) | 233 µs | 139 µs | kept |
| For batches that do, compare the settings before each operation instead of setting them ` +
    'again after it: for each | 24 µs | 15 µs | ' +
    'dropped: a difference would need a second run. Timeouts are no longer set again |' + `

The pieces of a statement, of a select by key (PostgreSQL 15, of 34 to 48 µs in all):
\`json_agg\` with its count 4 µs, the limit 0.8 µs, both clocks 1 to 2.4 µs, the size check 2 to
3 µs, a value shared with later operations 2 to 8 µs. The check of types costs nothing: PostgreSQL
computes it while it plans. For 1000 rows, \`json_agg\` needs 4 to 5 % less than single rows.

Other work, measured in turns, too:

| Way | Before | After | |
| --- | --- | --- | --- |
| Functions that V8 allocates in the old generation keep no request, see CONTRIBUTING: garbage ` +
    `that only a major collection finds, of a batch with a value of 10 kB | 27 kB | 8 kB | kept |
| The same: a select by key (Node) | 185 µs | 158 µs | kept |
| No Sync before COMMIT, so that PostgreSQL sends all answers in one write: the bytes of a ` +
    `select by key, again and again | 92.8 µs | 87.3 µs | kept |
| BEGIN prepared, and the role set with the settings: the same bytes | 87.3 µs | 80.0 µs | kept |
| Let PostgreSQL expect 10 rows of JSON and not 100: a named update of 10 rows by key | ` +
    `2.6 ms | 0.63 ms | kept |
| Read these rows once, and not again for the check that they are unambiguous | 0.41 ms | ` +
    `0.36 ms | kept |
| Recognize the functions of a call by an array of transactions, and send JSON as jsonb: a call ` +
    `| 177 µs | 150 µs | kept |
| \`statement_timeout\` in the startup message: the bytes of a select by key | 84 µs | 82 µs | ` +
    `kept |
| Store the response of a key by one insert, and set only the role again after it: PostgreSQL ` +
    `for an order with a key, divided by one without | 1.97 | 1.59 | kept |
| Store that response by a prepared statement: the storing | 288 µs | 88 µs | kept |
| Write a batch that only reads behind the one that runs, with 10 connections and 2.5 ms | ` +
    '2 619 batches/s | 4 784 batches/s | dropped: 20 connections do 4 221, and the batch would ' +
    `wait for the other one, and be lost with it |
| One write for the responses of one turn of the event loop | 2 writes per batch | – | ` +
    `dropped: one is to PostgreSQL and one to the client, and no two batches share a socket |
| A young generation of 32 or 64 MiB in V8 instead of 16, a select by key (Node) | 297 µs | ` +
    `297 µs | dropped |
| Insert 10 000 rows without parsing their JSON in Node | 45 ms | 30 ms | ` +
    `dropped: what is parsed is checked, and each error names its row and its column |
`
}

export function describeMethod ({ connections, slices, bulk }: BenchRecord): string {
  return `## Method

- The load is a closed loop of ${connections} kept connections, by
  [autocannon](../../bench/load.ts) in its own process. Each contender is warmed up with
  ${show(slices.warmUpBatches)} batches, in which V8 compiles most of it, or fewer if these take
  too long. Then the contenders take
  ${slices.count} slices of about ${slices.seconds} s each, in turns (A B C A B C …). A slice is a
  fixed number of batches, so all of them have a response at its end.
- The contenders send and return many rows ${bulk[0]?.oneflight.length ?? 0} times each, in turns,
  after the same number of repetitions as a warm-up.
- Before the measurement, the run compares the responses of all contenders. After every slice, it
  compares the rows in the database. The run fails if a contender did less or returned an error.
- [A proxy](../../bench/delay-proxy.ts) adds the round trip: it delays each direction by half of
  it, for all contenders. Without it, all connect directly. The tables show the round trip that
  \`select 1\` measures, which includes that of the machine itself.
- Processor time is what the kernel reports for the contender's process, and for all processes of
  the PostgreSQL server, during the same slices. It includes what the server does for all, such as
  checkpoints. Memory is the resident set and its peak. They are not measured without
  \`/proc\`, or if the server runs on another machine.
- The hot row is the number of the next invoice. As numbering without gaps requires, the first
  statement locks it and everything else follows. The order has no contention and shows what remains
  without it.`
}

export function describeLimits (): string {
  return `## What this does not show

- Load, contender and database share the cores of one machine. A contender that needs less
  processor time leaves more of it to the database. That does not apply on separate machines;
  compare processor time instead.
- Unfair to Oneflight: it parses and checks a language instead of one fixed form, returns the rows
  of every operation, and collects metrics. pgbench, psql and the bare function do without HTTP,
  tokens or roles.
- Unfair to the others: the hot row is locked first. Hand-written code can often run the statement
  that locks last. PostGraphile users would write an order as a custom mutation, which is the
  PL/pgSQL function. PostGraphile cannot insert several rows at once, so it needs two more
  mutations.
- Round trips are constant here. A real network has jitter, which costs contenders with many round
  trips the most.
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
# orders with some round trips against one contender, in two minutes; writes nothing
npm run bench order -- --round-trips=0,2.5 --against=postgres.js
# some words of the language, also against another checkout of the service; writes nothing
npm run bench words -- --words=upsert,call --against-checkout=../oneflight-before
\`\`\`

PostgreSQL is the embedded one. Set \`DATABASE_URL\` to the URL of a superuser to use another
server: the run creates the database \`oneflight_bench\` and roles \`oneflight_bench_…\` there,
and drops them at the end. pgbench and psql are included if they are on the PATH.
`
}
