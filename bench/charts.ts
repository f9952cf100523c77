/**
 * The charts of docs/internals/benchmarks.md as SVG, drawn by ECharts without a browser.
 *
 * In charge of: what each shows, on a white ground, so that it can be read on a dark page as well.
 * Refuses to: round or leave out a figure.
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
/**
 * Oneflight first; the others after Okabe and Ito, who chose them to be told apart by everybody.
 */
const colors = ['#0072b2', '#e69f00', '#56b4e9', '#999999', '#009e73', '#cc79a7', '#d55e00']
const font = 'Helvetica, Arial, sans-serif'
const grey = '#444444'

/** File name → SVG. A chart whose part was not measured is missing. */
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
          'Orders of 5 operations a second, no added round trip',
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
    color: colors,
    textStyle: { fontFamily: font, color: grey },
    ...option
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  // ECharts counts the charts of the process in these names; the file is to be the same whatever
  // was drawn before.
  return `${svg.replaceAll(/zr\d+-/g, 'zr-')}\n`
}

const title = (text: string, subtext: string) => ({
  text,
  subtext,
  left: 20,
  top: 12,
  textStyle: { fontSize: 17, color: '#111111', fontFamily: font },
  subtextStyle: { fontSize: 12, color: grey, fontFamily: font }
})
const grid = { left: 64, right: 28, top: 112, bottom: 44 }
const label = {
  show: true,
  position: 'top' as const,
  color: '#111111',
  fontSize: 11,
  formatter: ({ value }: { readonly value?: unknown }) => show(Number(value))
}
// Wide gaps: without a browser the width of a text is a guess, and fonts differ.
const legend = {
  top: 66,
  left: 20,
  itemGap: 34,
  itemWidth: 14,
  itemHeight: 10,
  textStyle: { color: grey, fontFamily: font }
}
const amount = {
  type: 'value' as const,
  axisLabel: { color: grey, formatter: (value: number) => show(value) },
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
      'Batches a second that all need the same row',
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

/** One bar for each contender; two of Oneflight, for it is measured beside either group. */
function bars (
  text: string,
  comparisons: readonly Comparison[],
  value: Value
): echarts.EChartsOption {
  const all = labelled(comparisons)
  return {
    title: title(
      text,
      'batches/s, more is better; on the right ids are chosen by the client, as ' +
        'PostGraphile needs it'
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
      'ms of a batch of 5 operations; less is better; pgbench has no Node'
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
      'What one more costs',
      'ms, by how many there are in one batch or operation; one client; both axes are ' +
        'logarithmic; flat or falling is the goal'
    ),
    legend,
    grid: { ...grid, right: 50 },
    xAxis: {
      type: 'log',
      axisLabel: { color: grey, formatter: (value: number) => show(value) },
      splitLine: { show: false }
    },
    // A power of ten below the least, so that its label stands clear of the axis.
    yAxis: {
      type: 'log',
      min: ({ min }) => 10 ** (Math.floor(Math.log10(min)) - 1),
      axisLabel: { color: grey, formatter: (value: number) => show(value) },
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
  return name.startsWith(contenders.oneflight.name) ? colors[0] as string : '#999999'
}
