/**
 * Tests the pages for operators: links lead to existing files and headings, and the line above each
 * `sh` block says how it is tested.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

/** The anchors that GitHub generates for the headings. */
const anchors = (markdown: string): Set<string> =>
  new Set(
    [...markdown.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
      heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')
    )
  )

for (const file of ['docs/operations/monitoring.md', 'deploy/kubernetes/README.md']) {
  t.test(file, async t => {
    const text = read(file)
    const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link as string).filter(
      link => !/^https?:/.test(link)
    )
    t.ok(links.length > 3)
    for (const link of links) {
      const [path = '', anchor] = link.split('#')
      const target = path === '' ? file : join(dirname(file), path)
      t.ok(existsSync(join(root, target)), link)
      if (anchor !== undefined && existsSync(join(root, target))) {
        t.ok(anchors(read(target)).has(anchor), link)
      }
    }
    const lines = text.split('\n')
    for (const [i, line] of lines.entries()) {
      if (line.trim() === '```sh') {
        t.match(lines[i - 1], /^<!-- (run|run by|not run): .+ -->$/, `${file}:${i + 1}`)
      }
    }
  })
}

t.test('the sections named in deploy/ exist', async t => {
  const files = [
    'deploy/pgbouncer/pgbouncer.ini',
    'deploy/observability/alerts.yml',
    'deploy/observability/prometheus.yml'
  ]
  for (const file of files) {
    const named = [...read(file).matchAll(/(docs\/[a-z/-]+\.md)#([a-z-]+)/g)]
    for (const [link, page = '', anchor = ''] of named) {
      t.ok(anchors(read(page)).has(anchor), `${file}: ${link}`)
    }
  }
})
