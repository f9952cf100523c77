/**
 * Draws the charts of docs/internals/benchmarks.md as SVG, with ECharts and without a browser. They
 * have a white background, so they are also readable on a dark page.
 */
import * as echarts from 'echarts'
import { contenders } from './contenders.ts'
import { find, show } from './goals.ts'
import {
  cpuPerBatch,
  ROUND_TRIPS,
  spreadOf,
  throughputOf,
  type BenchRecord,
  type Comparison,
  type Cost
} from './record.ts'

const WIDTH = 860
const HEIGHT = 420
/** Oneflight first. The palette of Okabe and Ito suits all kinds of color vision. */
const COLORS = ['#0072b2', '#e69f00', '#56b4e9', '#999999', '#009e73', '#cc79a7', '#d55e00']
const FONT = 'Helvetica, Arial, sans-serif'
const GREY = '#444444'

/** Returns the charts as SVG, by file name, without those that were not measured. */
export function renderCharts (record: BenchRecord): ReadonlyMap<string, string> {
  const order = [find(record, 'order', 0), find(record, 'order with ids', 0)].filter(comparison =>
    comparison !== undefined
  )
  const charts: ReadonlyArray<readonly [string, echarts.EChartsOption | undefined]> = [
    ['hot-row.svg', hotRow(record)],
    [
      'order.svg',
      order.length === 0
        ? undefined
        : bars(
          'Orders of 5 operations per second, no added round trip',
          order,
          slices => throughputOf(slices)?.median
        )
    ],
    ['cost.svg', record.perOperation.length === 0 ? undefined : curves(record)],
    ['cpu.svg', order.length === 0 ? undefined : cpu(order)]
  ]
  return new Map(
    charts.flatMap(([file, option]) => option === undefined ? [] : [[file, draw(option)]])
  )
}

function draw (option: echarts.EChartsOption): string {
  const chart = echarts.init(null, null, {
    renderer: 'svg',
    ssr: true,
    width: WIDTH,
    height: HEIGHT
  })
  chart.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    color: COLORS,
    textStyle: { fontFamily: FONT, color: GREY },
    ...option
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  // ECharts numbers the charts of the process in these names. Without them the file depends only on
  // the data.
  return `${svg.replaceAll(/zr\d+-/g, 'zr-')}\n`
}

const title = (text: string, subtext: string) => ({
  text,
  subtext,
  left: 20,
  top: 12,
  textStyle: { fontSize: 17, color: '#111111', fontFamily: FONT },
  subtextStyle: { fontSize: 12, color: GREY, fontFamily: FONT }
})
const grid = { left: 64, right: 28, top: 112, bottom: 44 }
const label = {
  show: true,
  position: 'top' as const,
  color: '#111111',
  fontSize: 11,
  formatter: ({ value }: { readonly value?: unknown }) => show(Number(value))
}
// The gaps are wide because the width of a text is an estimate without a browser.
const legend = {
  top: 66,
  left: 20,
  itemGap: 34,
  itemWidth: 14,
  itemHeight: 10,
  textStyle: { color: GREY, fontFamily: FONT }
}
const amount = {
  type: 'value' as const,
  axisLabel: { color: GREY, formatter: (value: number) => show(value) },
  splitLine: { lineStyle: { color: '#e4e4e4' } }
}
const names = (data: readonly string[]) => ({
  type: 'category' as const,
  data: [...data],
  axisTick: { show: false },
  axisLabel: { color: '#111111', fontSize: 12, interval: 0 }
})

/** The chart of the README. */
function hotRow (record: BenchRecord): echarts.EChartsOption | undefined {
  const all = ROUND_TRIPS.map(ms => find(record, 'invoice', ms))
  const [first] = all
  if (first === undefined) return undefined
  return {
    title: title(
      'Batches per second that all update the same row',
      `4 operations with references, ${record.connections} connections; by round trip ` +
        'between service and PostgreSQL; more is better'
    ),
    legend,
    grid,
    xAxis: names(ROUND_TRIPS.map(ms => ms === 0 ? 'no added round trip' : `${ms} ms round trip`)),
    yAxis: amount,
    series: first.contenders.map(({ name }) => ({
      name: name === contenders['bare function'].name ? `${name} (no role: the limit)` : name,
      type: 'bar' as const,
      barGap: '8%',
      label,
      data: all.map(comparison =>
        throughputOf(comparison?.contenders.find(one => one.name === name)?.slices ?? [])?.median ??
          0
      )
    }))
  }
}

type Value = (slices: Comparison['contenders'][number]['slices']) => number | undefined

/** One bar per contender. Oneflight has two: it is measured with each group. */
function bars (
  text: string,
  comparisons: readonly Comparison[],
  value: Value
): echarts.EChartsOption {
  const all = labelled(comparisons)
  return {
    title: title(
      text,
      'batches/s, more is better; on the right the client chooses the ids, as ' +
        'PostGraphile requires'
    ),
    grid: { ...grid, top: 84 },
    xAxis: names(all.map(({ name }) => name)),
    yAxis: amount,
    series: [{
      type: 'bar',
      barMaxWidth: 60,
      label,
      data: all.map(({ name, slices }) => ({
        value: value(slices) ?? 0,
        itemStyle: { color: colorOf(name) }
      }))
    }]
  }
}

function cpu (comparisons: readonly Comparison[]): echarts.EChartsOption {
  const all = labelled(comparisons)
  const part = (name: string, of: 'nodeCpuMs' | 'postgresCpuMs', color: string) => ({
    name,
    type: 'bar' as const,
    barMaxWidth: 34,
    label,
    itemStyle: { color },
    data: all.map(({ slices }) => cpuPerBatch(slices, of)?.median ?? '-')
  })
  return {
    title: title(
      'Processor time of one order',
      'ms per batch of 5 operations; less is better; pgbench does not use Node'
    ),
    legend,
    grid,
    xAxis: names(all.map(({ name }) => name)),
    yAxis: amount,
    series: [part('Node', 'nodeCpuMs', '#009e73'), part('PostgreSQL', 'postgresCpuMs', '#56b4e9')]
  }
}

function curves (record: BenchRecord): echarts.EChartsOption {
  const curve = (name: string, costs: readonly Cost[], position: 'top' | 'bottom') => ({
    name,
    type: 'line' as const,
    symbolSize: 7,
    label: {
      ...label,
      position,
      distance: 8,
      formatter: ({ value }: { readonly value?: unknown }) => show((value as number[])[1] ?? 0)
    },
    data: costs.map(({ size, ms }) => [size, spreadOf(ms)?.median ?? 0])
  })
  return {
    title: title(
      'Cost of one more operation or row',
      'ms, by their number in one batch or operation; one client; both axes are ' +
        'logarithmic; the goal is flat or falling'
    ),
    legend,
    grid: { ...grid, right: 50 },
    xAxis: {
      type: 'log',
      axisLabel: { color: GREY, formatter: (value: number) => show(value) },
      splitLine: { show: false }
    },
    // One power of ten below the minimum, so that its label does not overlap the axis.
    yAxis: {
      type: 'log',
      min: ({ min }) => 10 ** (Math.floor(Math.log10(min)) - 1),
      axisLabel: { color: GREY, formatter: (value: number) => show(value) },
      splitLine: { lineStyle: { color: '#e4e4e4' } }
    },
    series: [
      curve('one operation (an insert of one row)', record.perOperation, 'top'),
      curve('one row of an insert', record.perRow, 'bottom')
    ]
  }
}

function labelled (comparisons: readonly Comparison[]): Comparison['contenders'] {
  return comparisons.flatMap(({ work, contenders: all }) =>
    all.map(({ name, slices }) => ({
      name: work === 'order with ids'
        ? `${name},\nids by client`
        : name.replace(' + ', ' +\n').replace(' -M', '\n-M'),
      slices
    }))
  )
}

function colorOf (name: string): string {
  return name.startsWith(contenders.oneflight.name) ? COLORS[0] as string : '#999999'
}
