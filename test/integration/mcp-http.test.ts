/**
 * Tests that `POST /mcp` has the rules of `POST /batches/<name>`: tokens, preferences, limits,
 * origins, log, metrics and errors. And that a message is bounded.
 */
import t, { type Test } from 'tap'
import { callTool, connectAgent, readText, sendMessage, writeCall } from '../support/mcp.ts'
import { ask, forbidAnswers, useService } from '../support/service.ts'
import { failed } from '../support/shorthand.ts'
import { holdRow } from '../support/database/hold.ts'
import * as op from '../support/operations.ts'

const schema = `
  create table u (id int primary key, t text);
  insert into u values (0, 'é"');
  create table l (t text);
  insert into l select repeat(U&'\\00e9"', 200000) from generate_series(1, 4);
  grant all on u, l to oneflight_user;
  grant select on u to oneflight_anon;
`
const put = {
  params: { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] },
  operations: [op.insert('i', 'u', [{ id: '$params.id' }])]
}
const batches = {
  put,
  read: { operations: [op.select('s', 'u', { columns: ['id'], where: { id: { eq: 0 } } })] },
  large: { operations: [op.select('s', 'l', { columns: ['t'] })] },
  wait: { operations: [op.update('w', 'u', { set: { t: 'x' }, where: { id: { eq: 0 } } })] }
}
const env = {
  MCP: 'on',
  ANON_ROLE: 'oneflight_anon',
  CORS_ORIGINS: 'https://app.example',
  MAX_BODY_BYTES: '200000',
  EXPLAIN: 'on'
}
const service = await useService(t, { schema, batches, env })
const { database, log, url } = service
const { sql } = database
const read = writeCall('read', '{}')

const useAnother = (t: Test, more: Readonly<Record<string, string>>) =>
  useService(t, { schema, batches, env: { ...env, ...more } })

t.test('only POST is served, and only with MCP=on', async t => {
  for (const method of ['GET', 'DELETE', 'PUT']) {
    const answer = await sendMessage(service, undefined, { method, headers: {} })
    t.equal(answer.status, 405, method)
    t.equal(answer.headers.get('allow'), 'POST')
  }
  const off = await useAnother(t, { MCP: 'off' })
  t.equal((await sendMessage(off, read)).status, 404)
})

t.test('tokens and roles', async t => {
  const headers = { authorization: 'Bearer x.y.z' }
  t.match(await sendMessage(service, read, { headers }), failed(401, 'token_invalid'))
  t.match(readText(await sendMessage(service, read, { role: null })), /"committed":true/)
  const refused = await sendMessage(service, writeCall('put', '{"id":1}'), { role: null })
  t.match(JSON.parse(readText(refused)), {
    committed: false, error: { code: 'insufficient_privilege', repair: /may not do this/ }
  })
  const strict = await useAnother(t, { ANON_ROLE: '' })
  t.equal((await sendMessage(strict, read, { role: null })).status, 401)
})

t.test('preferences', async t => {
  const prefer = (value: string) => ({ headers: { prefer: value } })
  const dry = await sendMessage(service, writeCall('put', '{"id":2}'), prefer('tx=rollback,timing'))
  t.equal(readText(dry), '{"committed":false,"data":{"i":[{"id":2,"t":null}]}}')
  t.equal(dry.headers.get('preference-applied'), 'tx=rollback, timing')
  t.match(dry.headers.get('server-timing'), /total/)
  t.same(await sql`select from u where id = 2`, [])
  const failed = await sendMessage(service, writeCall('put', '{"id":0}'), prefer('tx=rollback'))
  t.equal(failed.body.result.isError, true)
  t.equal(failed.headers.get('preference-applied'), null)
  t.equal((await sendMessage(service, read, prefer('handling=strict,x'))).status, 400)
  t.match(readText(await sendMessage(service, read, prefer('explain'))), /Plan/)
})

t.test('origins', async t => {
  const from = (origin: string) => ({ headers: { origin } })
  t.match(await sendMessage(service, read, from('https://evil.example')), {
    status: 403, body: { error: { code: 'origin_forbidden' } }
  })
  const allowed = await sendMessage(service, read, from('https://app.example'))
  t.equal(allowed.headers.get('access-control-allow-origin'), 'https://app.example')
  const preflight = await ask(`${url}/mcp`, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://app.example',
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'mcp-protocol-version'
    }
  })
  t.match(preflight.headers.get('access-control-allow-headers'), /mcp-protocol-version/)
  const every = await useAnother(t, { CORS_ORIGINS: '*' })
  t.equal((await sendMessage(every, read, from('https://x.example'))).status, 200)
})

t.test('what is no message is refused', async t => {
  const refuses = async (body: string, status: number, code: string) => {
    t.match(await sendMessage(service, body), { status, body: { error: { code } } })
  }
  await refuses('{', 400, 'body_invalid')
  await refuses(`[${read}]`, 400, 'body_invalid')
  await refuses('{"jsonrpc":"2.0","jsonrpc":"2.0"}', 400, 'body_invalid')
  await refuses(writeCall('read', '['.repeat(100) + ']'.repeat(100)), 400, 'body_invalid')
  await refuses(writeCall('read', `{"x":"${'x'.repeat(200_000)}"}`), 413, 'body_too_large')
  const padding = `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(70_000)}"}}`
  await refuses(padding, 400, 'body_invalid')
  t.match(await sendMessage(service, read, { headers: { 'content-type': 'text/plain' } }), {
    status: 415, body: { error: { code: 'content_type_unsupported' } }
  })
  const long = await sendMessage(service, writeCall('read', `{"x":"${'x'.repeat(100_000)}"}`))
  t.match(JSON.parse(readText(long)), { error: { code: 'params_invalid' } })
})

t.test('the SDK answers what is no call', async t => {
  const send = async (text: string, headers = {}) => sendMessage(service, text, { headers })
  t.match(await send('{"jsonrpc":"2.0","id":7,"method":"ping"}'), {
    status: 200, body: { id: 7, result: {} }
  })
  const accepted = await send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
  t.match(accepted, { status: 202, text: '' })
  t.equal((await send('{"x":1}')).status, 400)
  t.equal((await send(writeCall('read', '[]'))).body.error.code, -32602)
  t.equal((await send(writeCall('read', '{}', '9007199254740993'))).status, 400)
  t.equal((await send(writeCall('read', '{}', '"a\\"b"'))).body.id, 'a"b')
  t.equal((await send(read, { 'mcp-protocol-version': '2025-03-26' })).status, 400)
  const listen = await send('{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{' +
    '"notifications":{"toolsListChanged":true},"_meta":{' +
    '"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
    '"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},' +
    '"io.modelcontextprotocol/clientCapabilities":{}}}}', {
    'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen'
  })
  t.match(listen.body.error, { message: 'Subscription limit reached' })
})

t.test('a large response is the text that PostgreSQL rendered', async t => {
  const client = await connectAgent(t, service)
  const { text } = await callTool(client, 'large')
  const rows = await sql<Array<{ t: string }>>`select t from l`
  t.ok(Buffer.byteLength(text) > 2_000_000)
  t.same(JSON.parse(text), { committed: true, data: { s: [...rows] } })
})

t.test('a full pool refuses a call, and a deadline ends it', async t => {
  const small = await useAnother(t, {
    POOL_SIZE: '1', QUEUE_SIZE: '0', REQUEST_TIMEOUT_MS: '2000', LOCK_TIMEOUT_MS: '1000'
  })
  const held = await holdRow(small.database, 'select from u where id = 0')
  const waiting = sendMessage(small, writeCall('wait', '{}'))
  await held.awaited()
  t.match(await sendMessage(small, read), { status: 503, body: { error: { code: 'overloaded' } } })
  const answer = JSON.parse(readText(await waiting))
  t.match(answer, {
    committed: false, error: { code: 'lock_not_available', repair: /same arguments in a few/ }
  })
  await held.free()
})

t.test('log and metrics count the named batch', async t => {
  await sendMessage(service, writeCall('put', '{"id":9}'))
  await sendMessage(service, writeCall('put', '{"id":9}'))
  const lines = log.filter(({ path }) => path === '/mcp').slice(-2)
  t.match(lines[0], { status: 200, batch: 'put', operations: 1, role: 'oneflight_user' })
  t.match(lines[1], { status: 200, batch: 'put', code: 'unique_violation', index: 0 })
  const { text } = await ask(`${service.adminUrl}/metrics`)
  t.match(text, /service_batch_count\{batch="put",outcome="error"\} [1-9]/)
  t.match(text, /service_batch_error_count\{batch="put",code="unique_violation"\} [1-9]/)
  t.match(text, /http_request_duration_seconds_count\{[^}]*route="\/mcp"[^}]*kind="batch"/)
})

t.test('an error after COMMIT does not say that nothing was committed', async t => {
  forbidAnswers(t)
  const call = writeCall('put', '{"id":10}')
  const { status, body } = await sendMessage(service, call)
  t.match({ status, body }, { status: 500, body: { error: { committed: 'unknown' } } })
})
