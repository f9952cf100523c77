/**
 * With `SQL_COMMENTS=on`, every statement of a batch, including COMMIT, has a comment with its
 * request id and trace. By default, no statement has one. Checked in the log of a separate
 * PostgreSQL server.
 */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import tap from 'tap'
import { commentOn } from '../../src/sql/frame/steps.ts'
import { skip, useRestartableServer } from '../support/database/restartable-server.ts'
import * as op from '../support/operations.ts'
import { useService } from '../support/service.ts'
import { until } from '../support/until.ts'

const title = (text: string): string => `${text}${skip === false ? '' : ` (skipped: ${skip})`}`

const schema = `
  create table t (id int primary key, other int references t deferrable initially deferred);
  grant all on t to oneflight_user;`
const trace = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: 'b7ad6b7169203331',
  flags: '01'
}
const traceparent = `00-${trace.traceId}-${trace.spanId}-${trace.flags}`

const insert = (id: number, other?: number): object =>
  op.insert(`i${id}`, 't', [{ id, ...other === undefined ? {} : { other } }])

tap.test('the comment has the format of sqlcommenter and escapes every id', async t => {
  t.equal(commentOn('a', undefined), " /*request_id='a'*/")
  t.equal(
    commentOn('a/b:c+d=e@f', trace),
    ` /*request_id='a%2Fb%3Ac%2Bd%3De%40f',traceparent='${traceparent}'*/`
  )
  // Request ids cannot contain these characters. They are escaped as a second defence.
  t.equal(
    commentOn("*/ ' -- \n é", undefined),
    " /*request_id='%2A%2F%20%27%20--%20%0A%20%C3%A9'*/"
  )
})

tap.test(title('the log of the server names the request of each statement'), { skip }, async t => {
  const before = process.env['TEST_DATABASE_URL']
  const settings = {
    fsync: 'off',
    log_min_duration_statement: 0,
    log_line_prefix: '%a ',
    application_name: 'other'
  }
  const server = (await useRestartableServer(t, settings)).current()
  process.env['TEST_DATABASE_URL'] = server.url
  t.teardown(() => {
    process.env['TEST_DATABASE_URL'] = before
  })
  /**
   * The log entries of a request, once one of them matches `last`. Continuation lines begin with a
   * tab and are joined.
   */
  const linesOf = async (id: string, last: RegExp): Promise<readonly string[]> =>
    await until(async () => {
      const lines = (await readFile(join(server.socketDir, 'server.log'), 'utf8')).replaceAll(
        '\n\t',
        ' '
      ).split('\n').filter(line => line.includes(`request_id='${id}'`))
      return lines.some(line => last.test(line)) ? lines : undefined
    })
  const { post } = await useService(t, {
    schema: `${schema} -- ${randomUUID()}`,
    env: { SQL_COMMENTS: 'on' },
    keys: true
  })
  const comment = (id: string): string => `/*request_id='${id}',traceparent='${traceparent}'*/`
  for (const [n, id] of ['first', 'again'].entries()) {
    t.equal(
      (await post([insert(n), op.select('s', 't')], {
        headers: { traceparent, 'x-request-id': id }
      })).status,
      200
    )
    const lines = await linesOf(id, /\bcommit\b/)
    for (const word of ['set_config', 'insert into', 'from "public"."t"']) {
      t.ok(lines.some(line => line.includes(word)), `${id}: ${word}`)
    }
    t.ok(lines.every(line => line.endsWith(comment(id))))
    t.notOk(
      lines.some(line => /execute s\d/.test(line)),
      'no statement is prepared, because every request would leave one behind'
    )
  }
  t.equal(
    (await post([insert(7)], {
      headers: { traceparent, 'x-request-id': 'failed', 'idempotency-key': 'k' }
    })).status,
    200
  )
  t.equal(
    (await post([insert(7)], { headers: { traceparent, 'x-request-id': 'twice' } })).status,
    409
  )
  t.ok(
    (await linesOf('twice', /STATEMENT: .*insert/)).every(line => line.endsWith(comment('twice')))
  )
  t.equal(
    (await post([insert(8, 9)], { headers: { traceparent, 'x-request-id': 'deferred' } })).status,
    409
  )
  await linesOf('deferred', /STATEMENT: +commit\b/)

  const quiet = await useService(t, { schema: `${schema} -- ${randomUUID()}` })
  t.equal(
    (await quiet.post([insert(1)], { headers: { traceparent, 'x-request-id': 'quiet' } })).status,
    200
  )
  const log = await until(async () => {
    const text = await readFile(join(server.socketDir, 'server.log'), 'utf8')
    return /statement: commit\b[^/\n]*$/m.test(text) ? text : undefined
  })
  t.notMatch(log, "request_id='quiet'")
})
