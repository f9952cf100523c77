/**
 * The common style of the charts, and drawing them with ECharts without a browser. They have a
 * white background, so they are also readable on a dark page.
 */
import * as echarts from 'echarts'
import { show } from './goals.ts'

export const WIDTH = 860
const HEIGHT = 420
/** From the palette of Okabe and Ito, which suits all kinds of color vision. */
export const BLUE = '#0072b2'
export const ORANGE = '#e69f00'
export const GREEN = '#009e73'
export const BLACK = '#111111'
export const GREY = '#444444'
export const LIGHT_GREY = '#999999'
const FONT = 'Helvetica, Arial, sans-serif'

/** Draws one chart as SVG. */
export function draw (option: echarts.EChartsOption): string {
  const chart = echarts.init(null, null, {
    renderer: 'svg',
    ssr: true,
    width: WIDTH,
    height: HEIGHT
  })
  chart.setOption({
    animation: false,
    backgroundColor: '#ffffff',
    textStyle: { fontFamily: FONT, color: GREY },
    ...option
  })
  const svg = chart.renderToSVGString()
  chart.dispose()
  // ECharts numbers the charts of the process in these names. Without them the file depends only on
  // the data.
  return `${svg.replaceAll(/zr\d+-/g, 'zr-')}\n`
}

/** The title and, below it, what the values mean. */
export const title = (text: string, subtext: string) => ({
  text,
  subtext,
  left: 20,
  top: 12,
  textStyle: { fontSize: 17, color: BLACK, fontFamily: FONT },
  subtextStyle: { fontSize: 12, color: GREY, fontFamily: FONT }
})
/** On the right of the bars, in their order. */
export const legend = {
  orient: 'vertical' as const,
  top: 96,
  left: WIDTH - 184,
  itemGap: 14,
  itemWidth: 16,
  itemHeight: 10,
  textStyle: { color: BLACK, fontFamily: FONT, lineHeight: 16 }
}
/** The margins of the plot, with space for the legend. */
export const grid = { left: 76, right: 208, top: 84, bottom: 56 }
/** The name of an axis with its unit, `nameGap` pixels from the axis. */
export const axisName = (name: string, nameGap: number) => ({
  name,
  nameGap,
  nameLocation: 'middle' as const,
  nameTextStyle: { color: GREY, fontSize: 12, fontFamily: FONT }
})
const showValue = ({ value }: { readonly value?: unknown }): string => show(Number(value))
/** A value next to its bar. */
export const label = {
  show: true,
  position: 'top' as const,
  color: BLACK,
  fontSize: 11,
  formatter: showValue
}
/** An axis of numbers. */
export const amounts = (name: string, nameGap: number) => ({
  type: 'value' as const,
  ...axisName(name, nameGap),
  axisLabel: { color: GREY, formatter: (value: number) => show(value) },
  splitLine: { lineStyle: { color: '#e4e4e4' } }
})
/** An axis of names. */
export const names = (data: readonly string[]) => ({
  type: 'category' as const,
  data: [...data],
  axisTick: { show: false },
  axisLabel: { color: BLACK, fontSize: 12, interval: 0 }
})
