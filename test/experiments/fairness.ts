/**
 * The fairness scenario: the throughput of a client that behaves well, alone and while one
 * connection sends a hostile request again and again. Both are measured in turns, because the speed
 * of a machine changes from minute to minute.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Stage } from '../../scripts/dev/stage.ts'
import { nameOf, writeBody, type Recipe } from '../support/hostile/bodies.ts'
import { namedParts, writeParameters } from '../support/hostile/named.ts'
import { parts } from '../support/hostile/parts.ts'
import { findShare, isTooMuch, measureBody } from '../support/hostile/stages.ts'
import {
  useRestartableService,
  type RestartableService
} from '../support/process/restartable-service.ts'
import { encode, openConnection } from './client.ts'
import { orderRequest, schema, useBatchFolder } from './hostile-schema.ts'
import { bearer, useServer } from './own-server.ts'
import { figureFor, type Figure, type Scenario, type ScenarioOptions } from './scenario.ts'

const figure = figureFor(9)

/** Connections of the client that behaves well. */
const CLIENTS = 4

const forms = { long: { ms: 3000, cases: Infinity }, short: { ms: 200, cases: 3 } } as const

/** Parts whose bodies take longest, with the number of operations that share the body. */
const batches: ReadonlyArray<readonly [name: string, operations: number]> = [
  ['in: a reference each', 1],
  ['a value of insert: objects of one reference', 1],
  ['conditions: eq of a path of 99 keys', 1],
  ['conditions: exists', 100],
  ['set: $merge of references', 100],
  ['columns: distinct counts', 1],
  ['reads of with', 1],
  ['rows: 200 shapes', 1],
  ['rows by key: every modifier', 1],
  ['an operand of letters', 1],
  ['unknown members', 1]
]

const parameters: ReadonlyArray<readonly [batch: string, name: string]> = [
  ['unique', 'objects of a number'],
  ['number', 'a number of digits'],
  ['insert', 'rows of JSON in turns']
]

interface Case {
  readonly name: string
  readonly request: Buffer
}

/** A row has 1 MB. */
const LARGE_ROWS = 100

export const fairness: Scenario = {
  name: 'fairness',
  run: runFairness
}

async function runFairness (
  stage: Stage,
  { long, log }: ScenarioOptions
): Promise<readonly Figure[]> {
  const { ms, cases } = forms[long ? 'long' : 'short']
  const server = await useServer(stage, {
    schema: `${schema}
      create view large as select i, repeat('x', 1000000) as text
        from generate_series(1, ${LARGE_ROWS}) as i;
      grant select on large to public;`,
    settings: { fsync: 'off' }
  })
  const service = await useRestartableService(stage, {
    DATABASE_URL: server.loginUrl,
    BATCHES_DIR: await useBatchFolder(stage)
  })
  await service.ready()
  await measure(service, undefined, ms)
  const chosen = createCases().slice(0, cases)
  const shares: number[] = []
  for (const current of chosen) {
    const alone = await measure(service, undefined, ms)
    const share = await measure(service, current, ms) / alone
    shares.push(share)
    log(`${(100 * share).toFixed(0).padStart(4)} %  ${current.name}`)
    await server.sql`select refill()`
  }
  return [
    figure('kinds of hostile requests', shares.length),
    figure(
      'smallest throughput beside a hostile request, of that without',
      Math.min(...shares),
      { unit: '%', atLeast: 0.4 }
    )
  ]
}

function createCases (): readonly Case[] {
  const encodeRequest = (path: string, body: string): Buffer => encode(
    'POST', path, { authorization: bearer(), 'content-type': 'application/json' }, body
  )
  const find = <Item extends { readonly name: string }>(
    list: readonly Item[],
    name: string
  ): Item => {
    const found = list.find(item => item.name === name)
    if (found === undefined) throw new Error(`there is no part "${name}"`)
    return found
  }
  const small = '[{"id":"p","op":"select","table":"t","where":{"id":{"eq":1}}}]'
  const reads = Array.from({ length: 18 }, (_, i) => `{"id":"l${i}","op":"select","table":"large"}`)
  return [
    { name: 'a small batch', request: encodeRequest('/', small) },
    ...batches.map(([name, operations]): Case => {
      const recipe = { parts: [find(parts, name)], operations }
      return { name: nameOf(recipe), request: encodeRequest('/', writeAllowed(recipe)) }
    }),
    ...parameters.map(([batch, name]): Case => {
      const part = find(namedParts.filter(part => part.batch === batch), name)
      const body = writeParameters(part, 1_000_000)
      return { name: `${batch}: ${name}`, request: encodeRequest(`/batches/${batch}`, body) }
    }),
    { name: 'reads of 1.8 GB', request: encodeRequest('/', `[${reads.join()}]`) }
  ]
}

/** Writes a body with as many names, operators and references as are allowed. */
function writeAllowed (recipe: Recipe): string {
  const whole = writeBody(recipe)
  return isTooMuch(measureBody(whole))
    ? writeBody(recipe, findShare(share => measureBody(writeBody(recipe, share))))
    : whole
}

/** Orders per second, beside a hostile request if there is one. */
async function measure (
  service: RestartableService,
  hostile: Case | undefined,
  ms: number
): Promise<number> {
  const end = new AbortController()
  const attack = hostile === undefined
    ? Promise.resolve()
    : sendAgain(service, hostile.request, end.signal)
  // The hostile request has begun, and once the first time was measured, its code is compiled.
  if (hostile !== undefined) await delay(ms / 4)
  let orders = 0
  const start = performance.now()
  const request = orderRequest()
  await Promise.all(Array.from({ length: CLIENTS }, async () => {
    const connection = await openConnection(service.url)
    while (performance.now() - start < ms) {
      if ((await connection.send(request)).status === 200) orders++
    }
    connection.close()
  }))
  const seconds = (performance.now() - start) / 1000
  end.abort()
  await attack
  return orders / seconds
}

async function sendAgain (
  service: RestartableService,
  request: Buffer,
  end: AbortSignal
): Promise<void> {
  let connection = await openConnection(service.url)
  while (!end.aborted) {
    const response = await connection.send(request).catch(() => undefined)
    if (response === undefined || response.closes) {
      connection.close()
      connection = await openConnection(service.url)
    }
  }
  connection.close()
}
