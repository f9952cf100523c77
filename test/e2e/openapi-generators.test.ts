/**
 * Generates clients in TypeScript from the OpenAPI document with three generators, and compiles
 * what they write. The generators are packages of examples/clients/. The test is skipped where they
 * are not installed.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { root } from '../support/docs/pages.ts'
import { useShopService } from '../support/database/shop.ts'
import { needs, runProgram } from '../support/process/programs.ts'
import { ask, useService } from '../support/service.ts'

t.setTimeout(240_000)

const packages = join(root, 'examples/clients/node_modules')
const generators = ['openapi-ts', 'openapi-typescript', 'orval'] as const
const required = Object.fromEntries(generators.map(name => {
  const program = join(packages, '.bin', name)
  return [name, existsSync(program) ? program : undefined]
}))

/** Parameters and names of batches that are hard for generators. */
const operations = [{ id: 's', op: 'select', table: 't', where: { a: { eq: '$params.a' } } }]
const account = { type: 'object', properties: { 'a-b': { $ref: '#/$defs/node' } } }
const params = {
  type: 'object',
  properties: {
    a: { $ref: '#/$defs/account-name' },
    b: { $ref: '#/properties/a' },
    tree: { $ref: '#/$defs/node' },
    self: { $ref: '#' },
    rows: { type: 'array', items: { $ref: '#/$defs/account_name' } },
    any: true,
    word: { enum: ['x', 'y-z', ''] }
  },
  required: ['a'],
  additionalProperties: false,
  $defs: {
    'account-name': { type: ['string', 'null'], maxLength: 9 },
    account_name: account,
    node: {
      type: 'object',
      properties: { next: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] } }
    }
  }
}
const file = { params, operations }
const names = ['a-b', 'a_b', 'ab', 'run-batch', 'check_health', '2fa', 'delete', 'result', 'a--b_1']

const compilerOptions = {
  noEmit: true,
  strict: true,
  target: 'esnext',
  module: 'esnext',
  moduleResolution: 'bundler',
  lib: ['esnext', 'dom', 'dom.iterable'],
  types: []
}

/** Uses what was generated: each line fails to compile if a member or a type is missing. */
const uses = `
import { order, takeJob, transfer, type OrderParams, type TransferParams } from './shop/hey/index'
import type { components, operations } from './shop/types'
import { transfer as orvalTransfer, type TransferParams as OrvalParams } from './shop/orval'
const params: TransferParams = { from: 'a', to: 'b', amount: 1 }
const orderParams: OrderParams = { customer_id: 1, account: 'till', items: [] }
const same: components['schemas']['transfer_params'] = params
const again: OrvalParams = same
export const sent = [
  transfer({ body: params }), takeJob({ body: { kind: 'mail' } }), orvalTransfer(again)
]
type Placed = operations['order']['responses'][200]['content']['application/json']['data']
export const total = (data: Placed): unknown => [data.customer + 1, data.order[0]?.status]
export const paid = async (): Promise<unknown> =>
  (await order({ body: orderParams })).data?.data.account.map(({ balance }) => balance)
export type Body = operations['takeJob']['requestBody']['content']['application/json']
// @ts-expect-error: a member is missing.
export const wrong: TransferParams = { from: 'a', to: 'b' }
// @ts-expect-error: the row has no such member.
export const missing = (data: Placed): unknown => data.items[0]?.price
`

t.test(...needs('generators write TypeScript that compiles', required), async t => {
  const folder = t.testdir({})
  const shop = await useShopService(t, {
    env: { MAX_STREAM_ROWS: '10', MAX_UPLOAD_ROWS: '10', API_TABLES: 'on' }
  })
  const strange = await useService(t, {
    batches: Object.fromEntries(names.map(name => [name, file])),
    env: { MAX_STREAM_ROWS: '10' }
  })
  for (const [name, { url }] of Object.entries({ shop, strange })) {
    const target = join(folder, name)
    mkdirSync(target)
    const document = join(target, 'openapi.json')
    writeFileSync(document, (await ask(`${url}/openapi.json`)).text)
    const commands = {
      'openapi-ts': ['-i', document, '-o', join(target, 'hey'), '--no-log-file'],
      'openapi-typescript': [document, '-o', join(target, 'types.ts')],
      orval: ['--input', document, '--output', join(target, 'orval.ts'), '--client', 'fetch']
    }
    for (const generator of generators) {
      const { code, output } = await runProgram(
        process.execPath, [required[generator] as string, ...commands[generator]], { cwd: target }
      )
      t.equal(code, 0, `${generator}, ${name}: ${output}`)
    }
    const text = ['types.ts', 'orval.ts', 'hey/types.gen.ts'].map(path =>
      readFileSync(join(target, path), 'utf8')).join('\n')
    t.notMatch(text, /\$defs['"]?\??:/, 'definitions are no members')
  }
  writeFileSync(join(folder, 'uses.ts'), uses)
  const ofStrange = ['hey/index.ts', 'types.ts', 'orval.ts'].map(path => `strange/${path}`)
  const files = ['uses.ts', ...ofStrange]
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const { code, output } = await runProgram(process.execPath, [compiler, '-p', folder])
  t.equal(code, 0, output.slice(0, 4000))
})
