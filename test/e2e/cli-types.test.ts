/**
 * Tests `oneflight types`: what it prints, that the client accepts it as types, and its exit codes.
 */
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'
import { oneflight, runInside } from '../support/process/cli.ts'

const file = JSON.stringify({
  params: {
    type: 'object',
    properties: {
      id: { type: 'integer' },
      note: { type: ['string', 'null'] },
      items: { type: 'array', items: { $ref: '#/$defs/item' } }
    },
    required: ['id'],
    $defs: {
      item: { type: 'object', properties: { sku: { type: 'string' } }, required: ['sku'] }
    }
  },
  operations: [
    { id: 'one', op: 'select', table: 't', expect: 1 },
    { id: 'n', op: 'select', table: 't', answer: 'count', when: { one: 1 } }
  ]
})

t.test('the client accepts the types of a folder', async t => {
  const folder = t.testdir({ batches: { 'take-job.json': file } })
  const { code, out, err } = await oneflight(['types', join(folder, 'batches')])
  t.same([code, err], [0, ''])
  const client = join(import.meta.dirname, '../../client/src/index.ts')
  const program = `import { createClient } from ${JSON.stringify(client)}
import type { AnyDatabase } from ${JSON.stringify(client)}
${out}
const client = createClient<AnyDatabase, 'public', Batches>({ url: '' })
export const { data } = await client.run('take-job', { id: 7n, items: [{ sku: 'a' }], note: null })
export const first: unknown = data.one[0].name
export const n: number | null = data.n
const minimal = await client.run('take-job', { id: 1 }, { return: 'minimal', retry: false })
export const count: number = minimal.data.one
export const counts: number | null = minimal.data.n
const plans = await client.run('take-job', { id: 1 }, { explain: true })
export const plan = plans.data.one[0]?.Plan
// @ts-expect-error -- an unknown name
await client.run('take', { id: 1 })
// @ts-expect-error -- a missing parameter
await client.run('take-job', {})
// @ts-expect-error -- an unknown parameter
await client.run('take-job', { id: 1, x: 1 })
// @ts-expect-error -- another type
await client.run('take-job', { id: '1' })
// @ts-expect-error -- no member of the item
await client.run('take-job', { id: 1, items: [{ sku: 'a', qty: 1 }] })
// @ts-expect-error -- no operation
export const none = data.two
const open = createClient({ url: '' })
export const anything: unknown = (await open.run('any', { x: [1] })).data['rows']
`
  const path = join(t.testdirName, 'program.ts')
  const host = ts.createCompilerHost({})
  const { getSourceFile } = host
  host.getSourceFile = (name, ...rest) =>
    name === path
      ? ts.createSourceFile(name, program, ts.ScriptTarget.ES2024)
      : getSourceFile.call(host, name, ...rest)
  const compiled = ts.createProgram([path], {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    allowImportingTsExtensions: true,
    target: ts.ScriptTarget.ES2024,
    lib: ['lib.es2024.d.ts', 'lib.dom.d.ts'],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    types: []
  }, host)
  const messages = ts.getPreEmitDiagnostics(compiled).map(({ messageText, start }) =>
    `${start}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`)
  t.same(messages, [])
})

t.test('faults are printed to standard error', async t => {
  const folder = t.testdir({ 'a.json': '{"operations": []}', 'b.json': file })
  t.match(await runInside(['types', folder]), {
    code: 1,
    out: '',
    err: /^oneflight: [^\n]*a\.json:1:2: [^\n]*\n$/
  })
  t.match(await runInside(['types', folder], { env: { MAX_OPS: 'x' } }), {
    code: 2,
    err: /^oneflight: MAX_OPS: /
  })
})
