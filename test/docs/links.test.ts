/**
 * Tests that links inside the project lead to existing files and headings, that the tests which
 * pages name exist, and that lines of Markdown have at most 100 columns.
 */
import { existsSync, statSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import { anchorsOf, linksOf, listPages, readPage, root } from '../support/docs/pages.ts'

const anchors = new Map<string, ReadonlySet<string>>()

/**
 * Says why a link of the page `path` is broken. Returns undefined if it is valid or external.
 */
function problemOf (path: string, link: string): string | undefined {
  if (/^[a-z][a-z+.-]*:|^\/\//i.test(link)) return undefined
  const [file = '', anchor] = link.split('#')
  const target = file === '' ? path : normalize(join(dirname(path), decodeURIComponent(file)))
  if (target.startsWith('..')) return 'leaves the project'
  if (!existsSync(join(root, target))) return 'no such file'
  if (anchor === undefined) return undefined
  if (!target.endsWith('.md') || statSync(join(root, target)).isDirectory()) {
    return 'headings exist only in Markdown'
  }
  const known = anchors.get(target) ?? anchorsOf(readPage(target))
  anchors.set(target, known)
  return known.has(decodeURIComponent(anchor)) ? undefined : 'no such heading'
}

t.test('broken links are reported', async t => {
  t.equal(problemOf('docs/reference/language.md', 'README.md'), 'no such file')
  t.equal(problemOf('docs/reference/language.md', '#limitts'), 'no such heading')
  t.equal(
    problemOf('docs/reference/language.md', '../../package.json#scripts'),
    'headings exist only in Markdown'
  )
  t.equal(problemOf('README.md', '../README.md'), 'leaves the project')
})

/** Lines that cannot be broken: a table row, a long JSON string or a URL. */
const UNBREAKABLE = /^\||"(?:[^"\\]|\\.){60}|\S{60}/

/** Returns the lines of more than 100 columns that can be broken. Printed output is exempt. */
function findWideLines (page: string): readonly string[] {
  let language = ''
  return page.split('\n').filter(line => {
    const fence = /^\s*```(\w*)/.exec(line)
    if (fence !== null) language = fence[1] as string
    return line.length > 100 && language !== 'text' && !UNBREAKABLE.test(line)
  })
}

for (const path of listPages()) {
  t.test(path, async t => {
    const problems = linksOf(readPage(path)).map(link => [link, problemOf(path, link)] as const)
    t.same(problems.filter(([, problem]) => problem !== undefined), [])
    const tests = readPage(path).match(/(?<=`)test\/[\w/-]+\.test\.ts(?=`)/g) ?? []
    t.same(tests.filter(test => !existsSync(join(root, test))), [])
    t.same(findWideLines(readPage(path)), [])
  })
}
