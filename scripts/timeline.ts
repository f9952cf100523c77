/**
 * Draws docs/internals/how-it-works/timeline.svg: a transaction of four operations with awaited
 * statements, above the same transaction as a batch right after another one, on one time scale.
 * `node scripts/timeline.ts` writes the file. Only the order is exact:
 * test/docs/how-it-works.test.ts checks that the round trips are those that
 * docs/internals/benchmarks.md counts on the wire.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/** Statements that are sent in one write and awaited together. */
type Burst = readonly string[]

interface Story {
  readonly title: string
  readonly bursts: readonly Burst[]
}

export const file = 'docs/internals/how-it-works/timeline.svg'

const operations = ['operation 1', 'operation 2', 'operation 3', 'operation 4'] as const

/** Operation 1 locks the first row. COMMIT releases it when it runs, before its response. */
export const awaited: Story = {
  title: 'Each statement awaited',
  bursts: [['BEGIN'], ['settings'], ...operations.map(name => [name]), ['COMMIT']]
}
export const batch: Story = {
  title: 'One batch',
  bursts: [['BEGIN', 'settings', ...operations, 'COMMIT']]
}

/** Counts all round trips of a story, and those that begin while the lock is held. */
export function countRoundTrips (
  { bursts }: Story
): { readonly roundTrips: number, readonly underLock: number } {
  const locked = bursts.findIndex(burst => burst.includes('operation 1'))
  return { roundTrips: bursts.length, underLock: bursts.length - 1 - locked }
}

const WIDTH = 860
const PANEL = 178
const LEFT = 92
/** Pixels of one direction of a round trip, of a statement, and between statements of one write. */
const WAY = 42
const WORK = 9
const STEP = 3

export function drawTimeline (): string {
  const panels = [awaited, batch].map((story, i) => drawStory(story, 12 + i * (PANEL + 12)))
  const height = 2 * PANEL + 36
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}"
    height="${height}" role="img" aria-labelledby="title">
<title id="title">A transaction of four operations: awaited one by one its first lock is held
  for four round trips, as a batch for none.</title>
<style>
  svg { --ground: #ffffff; --text: #1f2328; --faint: #59636e; --line: #8c959f; --way: #0072b2;
    --lock: #d55e00; font: 13px system-ui, sans-serif }
  @media (prefers-color-scheme: dark) { svg { --ground: #15191f; --text: #e6edf3; --faint: #9198a1;
    --line: #6e7681; --way: #56b4e9; --lock: #f0883e } }
  .ground { fill: var(--ground) } .title { fill: var(--text); font-weight: 600; font-size: 14px }
    .text { fill: var(--text) } .faint { fill: var(--faint); font-size: 12px }
  .line { stroke: var(--line); stroke-width: 1 } .way { stroke: var(--way); stroke-width: 1.5;
    fill: none } .back { stroke-dasharray: 4 3 }
  .work { fill: var(--way) } .lock { fill: var(--lock) } .locked { fill: var(--lock);
    font-weight: 600 }
</style>
<rect class="ground" width="${WIDTH}" height="${height}" rx="6"/>
${panels.join('\n')}
</svg>
`
}

function drawStory (story: Story, top: number): string {
  const { roundTrips, underLock } = countRoundTrips(story)
  const [service, database] = [top + 58, top + 122]
  const shapes: string[] = []
  let x = LEFT + 8
  let locked: number | undefined
  let free = 0
  for (const burst of story.bursts) {
    const arrival = x + WAY
    let end = arrival
    for (const [i, statement] of burst.entries()) {
      shapes.push(
        `<path class="way" d="M${x + i * STEP} ${service}L${arrival + i * STEP} ${database}"/>`
      )
      const start = arrival + i * WORK
      shapes.push(
        `<rect class="work" x="${start}" y="${database}" width="${WORK - 2}" height="7"/>`
      )
      if (statement === 'operation 1') locked = start
      if (statement === 'COMMIT') free = start + WORK - 2
      end = start + WORK - 2
    }
    shapes.push(
      `<text class="faint" x="${x}" y="${service - 8}">${
        burst.length === 1
          ? burst[0]?.replace('operation ', 'op ')
          : 'BEGIN, settings, op 1 … op 4, COMMIT'
      }</text>`
    )
    shapes.push(`<path class="way back" d="M${end} ${database}L${end + WAY} ${service}"/>`)
    x = end + WAY + 4
  }
  const from = locked as number
  const held = `lock held: ${underLock === 0 ? 'no round trip' : `${underLock} round trips`}`
  const wide = free - from > 120
  return `<text class="title" x="20" y="${
    top + 22
  }">${story.title}: ${roundTrips} ${roundTrips === 1 ? 'round trip' : 'round trips'}</text>
<text class="text" x="20" y="${service + 4}">service</text>
<text class="text" x="20" y="${database + 4}">database</text>
<path class="line" d="M${LEFT} ${service}H${WIDTH - 20}M${LEFT} ${database}H${WIDTH - 20}"/>
${shapes.join('\n')}
<rect class="lock" x="${from}" y="${database + 13}" width="${free - from}" height="9"/>
<text class="locked" x="${wide ? from : free + 8}" y="${database + (wide ? 39 : 22)}">${held}</text>
<path class="line" d="M${x - 4} ${service}V${service + 9}"/>
<text class="faint" x="${x + 4}" y="${service + 16}">response</text>`
}

if (import.meta.main) {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, drawTimeline())
}
