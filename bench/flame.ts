/**
 * `node bench/flame.ts [folder of a checkout] [file]`: draws where Node spends its time while the
 * service runs selects by key, as a flame graph (SVG). Each box is a function, as wide as its share
 * of the samples, below the functions that called it.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onStage } from '../scripts/dev/stage.ts'
import { GREEN, ORANGE, WIDTH } from './chart-style.ts'
import { CONNECTIONS, contenders, makeSide, useServer } from './contenders.ts'
import { resetTables, useDatabase } from './database.ts'
import { useScript } from './stage.ts'

const WARM_UP = 8000
const BATCHES = 10_000
const ROW = 16
const TITLE = `Where Node spends its time: select by key, ${CONNECTIONS} clients`
/** Smaller shares of the samples are not drawn. */
const SMALLEST = 0.005

/** One function on one stack, with all that it calls. */
interface Box {
  readonly name: string
  readonly url: string
  samples: number
  readonly calls: Map<string, Box>
}

interface Frame {
  readonly functionName: string
  readonly url: string
}

/** What `node --cpu-prof` writes. Times are in microseconds of the monotonic clock. */
interface Profile {
  readonly startTime: number
  readonly nodes: ReadonlyArray<{
    readonly id: number,
    readonly callFrame: Frame,
    readonly children?: readonly number[]
  }>
  readonly samples: readonly number[]
  readonly timeDeltas: readonly number[]
}

/** A profile, and when the load began and ended. */
interface Taken {
  readonly profile: Profile
  readonly from: number
  readonly to: number
}

/** Profiles the service of a checkout. */
async function takeProfile (checkout: string): Promise<Taken> {
  const folder = mkdtempSync(join(tmpdir(), 'oneflight-flame-'))
  const now = (): number => Number(process.hrtime.bigint() / 1000n)
  const window = await onStage(async stage => {
    const database = await useDatabase(stage)
    await resetTables(database.sql)
    const server = await useServer(stage, { ...contenders.oneflight, checkout }, {
      databaseUrl: database.url,
      env: { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${folder} --cpu-prof-interval=200` }
    })
    const load = await useScript(stage, 'load.ts', { sendsHello: false })
    const side = await makeSide(contenders.oneflight, { server, load, work: 'read' })
    await side.run(WARM_UP)
    const from = now()
    await side.run(BATCHES)
    return { from, to: now() }
  })
  // The profile is written when the process ends.
  while (readdirSync(folder).length === 0) await sleep(20)
  const [file] = readdirSync(folder)
  const text = readFileSync(join(folder, file as string), 'utf8')
  rmSync(folder, { recursive: true })
  return { ...window, profile: JSON.parse(text) }
}

/** Adds up the samples of the time of the load, without those of an idle process. */
function addUp ({ profile, from, to }: Taken): Box {
  const nodes = new Map(profile.nodes.map(node => [node.id, node]))
  const parents = new Map(
    profile.nodes.flatMap(({ id, children = [] }) => children.map(child => [child, id] as const))
  )
  const stackOf = (id: number | undefined): readonly Frame[] => {
    const node = id === undefined ? undefined : nodes.get(id)
    return node === undefined ? [] : [...stackOf(parents.get(node.id)), node.callFrame]
  }
  const all: Box = { name: 'all', url: '', samples: 0, calls: new Map() }
  let time = profile.startTime
  for (const [i, id] of profile.samples.entries()) {
    time += profile.timeDeltas[i] as number
    const [, ...stack] = stackOf(id)
    if (time < from || time > to || stack[0]?.functionName === '(idle)') continue
    let box = all
    box.samples += 1
    for (const { functionName, url } of stack) {
      const name = functionName === '' ? '(anonymous)' : functionName
      const call = box.calls.get(`${name} ${url}`) ?? { name, url, samples: 0, calls: new Map() }
      box.calls.set(`${name} ${url}`, call)
      call.samples += 1
      box = call
    }
  }
  return all
}

const groups = [
  { name: 'Oneflight', color: '#56b4e9', has: /^(?!.*node_modules).*\/(src|plugins|schemas)\// },
  { name: 'postgres.js', color: GREEN, has: /node_modules\/postgres\// },
  { name: 'other packages', color: ORANGE, has: /node_modules\// },
  { name: 'Node', color: '#cccccc', has: /^/ }
] as const

const escape = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** Draws the boxes below each other, the widest call first. */
function draw (all: Box): string {
  const parts: string[] = []
  let depth = 0
  const place = (box: Box, x: number, row: number): void => {
    const width = box.samples / all.samples * WIDTH
    const share = `${(box.samples / all.samples * 100).toFixed(1)} %`
    const file = box.url.replace(/^.*?\/(?=(node_modules|src|plugins|schemas)\/)/, '')
    const color = groups.find(({ has }) => has.test(box.url))?.color
    const top = 44 + row * ROW
    const label = box.name.slice(0, Math.floor((width - 4) / 6))
    depth = Math.max(depth, row)
    parts.push(
      `<g><title>${escape(`${box.name} ${file} ${share}`)}</title><rect x="${x.toFixed(1)}" y="${
        top
      }" width="${width.toFixed(1)}" height="${ROW - 1}" fill="${color}"/>${
        label.length < 3
          ? ''
          : `<text x="${(x + 2).toFixed(1)}" y="${top + 11}">${escape(label)}</text>`
      }</g>`
    )
    let left = x
    for (const call of [...box.calls.values()].toSorted((a, b) => b.samples - a.samples)) {
      if (call.samples / all.samples < SMALLEST) break
      place(call, left, row + 1)
      left += call.samples / all.samples * WIDTH
    }
  }
  place(all, 0, 0)
  const legend = groups.map(({ name, color }, i) =>
    `<rect x="${4 + i * 130}" y="24" width="12" height="12" fill="${color}"/><text x="${
      20 + i * 130
    }" y="34">${name}</text>`
  )
  const height = 44 + (depth + 1) * ROW
  const size = `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="10">
<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>
<text x="4" y="15" font-size="13">${TITLE}</text>
${[...legend, ...parts].join('\n')}
</svg>
`
}

if (import.meta.main) {
  const [checkout = join(import.meta.dirname, '..'), file = 'flame.svg'] = process.argv.slice(2)
  writeFileSync(file, draw(addUp(await takeProfile(checkout))))
  console.log(`${file}: written`)
}
