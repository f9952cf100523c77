/**
 * The charts of docs/internals/benchmarks.md.
 */
import type { EChartsOption } from 'echarts'
import {
  amounts,
  axisName,
  BLACK,
  BLUE,
  draw,
  GREEN,
  GREY,
  grid,
  label,
  legend,
  LIGHT_GREY,
  names,
  ORANGE,
  title,
  WIDTH
} from './chart-style.ts'
import { contenders } from './contenders.ts'
import { find, show, slicesOf } from './goals.ts'
import { hotRowRace, orderRace, roundTripsOf, type Race } from './ratios.ts'
import {
  cpuPerBatch,
  spreadOf,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Cost
} from './record.ts'

/** Returns the charts as SVG, by file name, without those that were not measured. */
export function renderCharts (record: BenchRecord): ReadonlyMap<string, string> {
  const charts: ReadonlyArray<readonly [string, EChartsOption | undefined]> = [
    ['order.svg', drawRace(record, orderRace, {
      title: 'Orders per second, by round trip',
      subtitle: `5 operations with references, no contention, ${record.connections} connections`,
      y: 'Orders per second'
    })],
    ['hot-row.svg', drawRace(record, hotRowRace, {
      title: 'Batches per second that all update one row, by round trip',
      subtitle: `4 operations with references, ${record.connections} connections`,
      y: 'Batches per second',
      limit: contenders['bare function'].name
    })],
    ['contenders.svg', drawContenders(record)],
    ['cpu.svg', drawCpu(record)],
    ['cost.svg', drawCosts(record)]
  ]
  return new Map(
    charts.flatMap(([file, option]) => option === undefined ? [] : [[file, draw(option)]])
  )
}

interface RaceTexts {
  readonly title: string
  readonly subtitle: string
  readonly y: string
  /** A contender that does less, drawn as a line. */
  readonly limit?: string
}

/** The width of the bars of one round trip, as a part of the available width. */
const GROUP = 0.84
const BAR_WIDTH = 48
const PLOT_WIDTH = WIDTH - grid.left - grid.right

/** Bars by round trip. Undefined if the work was not measured. */
function drawRace (
  record: BenchRecord,
  race: Race,
  { title: text, subtitle, y, limit }: RaceTexts
): EChartsOption | undefined {
  const roundTrips = roundTripsOf(record, race)
  if (roundTrips.length === 0) return undefined
  const rates = (name: string) =>
    roundTrips.map(ms => rateOf(find(record, race.work, ms), name) ?? '-')
  const bars = ([
    ['Oneflight', contenders.oneflight.name, BLUE],
    ['Awaited statements', race.awaited, ORANGE],
    ['PL/pgSQL function', race.inFunction, GREEN]
  ] as const).map(([name, contender, color]) => ({
    name,
    type: 'bar' as const,
    barGap: '8%',
    barCategoryGap: `${100 - GROUP * 100}%`,
    barMaxWidth: BAR_WIDTH,
    label,
    itemStyle: { color },
    data: rates(contender)
  })).filter(({ data }) => data.some(rate => rate !== '-'))
  // A line above the bars of each round trip.
  const line = {
    name: 'Limit: the function\nwithout role and\ntransaction block',
    type: 'line' as const,
    symbol: 'rect',
    symbolSize: [Math.min(BAR_WIDTH * 3, PLOT_WIDTH * GROUP / roundTrips.length), 3],
    label,
    itemStyle: { color: GREY },
    lineStyle: { width: 0 },
    data: limit === undefined ? [] : rates(limit)
  }
  return {
    title: title(text, `${subtitle}; more is better`),
    legend,
    grid,
    xAxis: {
      ...names(roundTrips.map(String)),
      ...axisName('Round trip added between service and PostgreSQL, ms', 32)
    },
    yAxis: amounts(y, 52),
    series: limit === undefined ? bars : [...bars, line]
  }
}

function rateOf (comparison: Comparison | undefined, name: string): number | undefined {
  return throughputOf(slicesOf(comparison, name))?.median
}

const PGBENCH = 'pgbench -M prepared'
/** The distance of the lines of a scale of batches per second. */
const STEP = 500

/** All contenders of the order, without added round trip. */
function drawContenders (record: BenchRecord): EChartsOption | undefined {
  const all = orderContenders(record)
  if (all.length === 0) return undefined
  const limit = rateOf(find(record, 'order', 0), PGBENCH)
  const bars = all.filter(({ name }) => name !== PGBENCH)
  return {
    title: title(
      'Orders per second without added round trip, by contender',
      'more is better; "own ids": the client chooses the ids, as PostGraphile requires; ' +
        'these two took turns at another time'
    ),
    grid: { ...grid, left: 168, right: 48 },
    xAxis: {
      ...amounts('Orders per second', 30),
      max: ({ max }) => Math.ceil(Math.max(max, limit ?? 0) / STEP) * STEP
    },
    yAxis: { ...names(bars.map(({ name }) => name)), inverse: true },
    series: [{
      type: 'bar',
      barMaxWidth: 26,
      label: { ...label, position: 'right' },
      data: bars.map(({ name, slices }) => ({
        value: throughputOf(slices)?.median ?? '-',
        itemStyle: { color: name.startsWith(contenders.oneflight.name) ? BLUE : LIGHT_GREY }
      })),
      ...(limit === undefined
        ? {}
        : {
            markLine: {
              symbol: 'none',
              silent: true,
              lineStyle: { color: GREY, type: 'dashed', width: 1.5 },
              label: {
                position: 'insideMiddleTop',
                rotate: 90,
                color: BLACK,
                formatter: `pgbench, without HTTP and tokens: ${show(limit)}`
              },
              data: [{ xAxis: limit }]
            }
          })
    }]
  }
}

function drawCpu (record: BenchRecord): EChartsOption | undefined {
  const all = orderContenders(record)
  if (all.length === 0) return undefined
  const part = (of: 'node' | 'postgres', name: string, color: string) => ({
    name,
    type: 'bar' as const,
    stack: 'all',
    barMaxWidth: 26,
    label: { ...label, position: 'inside' as const, color: of === 'node' ? '#ffffff' : BLACK },
    itemStyle: { color },
    data: all.map(({ slices }) => cpuPerBatch(slices, of)?.median ?? '-')
  })
  return {
    title: title(
      'Processor time of one order',
      '5 operations; less is better; "own ids": the client chooses the ids, at another time; ' +
        'pgbench has no Node'
    ),
    legend,
    grid: { ...grid, left: 168 },
    xAxis: amounts('Processor time per order, ms', 30),
    yAxis: { ...names(all.map(({ name }) => name)), inverse: true },
    series: [part('node', 'Node', BLUE), part('postgres', 'PostgreSQL', ORANGE)]
  }
}

/** The contenders of both forms of the order. Oneflight is measured with each. */
function orderContenders (record: BenchRecord): Comparison['contenders'] {
  const of = (work: string) => find(record, work, 0)?.contenders ?? []
  return [
    ...of('order'),
    ...of('order with ids').map(({ name, slices }) => ({ name: `${name}, own ids`, slices }))
  ]
}

/** Two charts with logarithmic axes, because the numbers of operations and rows differ. */
function drawCosts (
  { perOperation, perRow }: BenchRecord
): EChartsOption | undefined {
  if (perOperation.length === 0) return undefined
  const sides = [
    { what: 'operation', sizes: 'Operations per batch', costs: perOperation, color: BLUE },
    { what: 'row', sizes: 'Rows per insert', costs: perRow, color: ORANGE }
  ]
  return {
    title: title(
      'Cost of one operation and of one row, by their number',
      'inserts of one client; all axes are logarithmic; less is better'
    ),
    grid: sides.map((_, i) => ({
      top: grid.top,
      bottom: grid.bottom,
      left: grid.left + i * WIDTH / 2,
      width: WIDTH / 2 - 140
    })),
    xAxis: sides.map(({ sizes, costs }, gridIndex) => ({
      type: 'log' as const,
      gridIndex,
      ...axisName(sizes, 32),
      max: costs.at(-1)?.size ?? 1,
      axisLabel: { color: GREY, formatter: (value: number) => show(value) },
      splitLine: { show: false }
    })),
    yAxis: sides.map(({ what }, gridIndex) => ({
      type: 'log' as const,
      gridIndex,
      ...axisName(`ms per ${what}`, 48),
      axisLabel: { color: GREY, formatter: (value: number) => show(value) },
      splitLine: { lineStyle: { color: '#e4e4e4' } }
    })),
    series: sides.map(({ costs, color }, i) => drawCost(costs, color, i))
  }
}

function drawCost (costs: readonly Cost[], color: string, index: number) {
  return {
    type: 'line' as const,
    xAxisIndex: index,
    yAxisIndex: index,
    symbol: 'circle',
    symbolSize: 7,
    itemStyle: { color },
    lineStyle: { color },
    label: {
      ...label,
      position: 'right' as const,
      offset: [-2, -8],
      formatter: ({ value }: { readonly value?: unknown }) => show((value as number[])[1] ?? 0)
    },
    data: costs.map(({ size, ms }) => [size, spreadOf(ms)?.median ?? 0])
  }
}
