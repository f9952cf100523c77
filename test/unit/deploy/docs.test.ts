/**
 * The pages of the operator: every link leads somewhere, every heading that is linked to is there,
 * and every command says how it is checked.
 */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import t from 'tap'

const root = resolve(import.meta.dirname, '../../..')
const read = (file: string): string => readFileSync(join(root, file), 'utf8')

/** Anchors as GitHub makes them. */
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

t.test('files that name sections of a page', async t => {
  for (
    const file of [
      'deploy/pgbouncer/pgbouncer.ini',
      'deploy/observability/alerts.yml',
      'deploy/observability/prometheus.yml'
    ]
  ) {
    const named = [...read(file).matchAll(/(docs\/[a-z/-]+\.md)#([a-z-]+)/g)]
    for (const [link, page = '', anchor = ''] of named) {
      t.ok(anchors(read(page)).has(anchor), `${file}: ${link}`)
    }
  }
})
