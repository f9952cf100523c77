/**
 * Tests the JSON Schema of batch files: that it accepts the files of the project, refuses slips,
 * and that a JSON language service completes and checks with it.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import t from 'tap'
import json from 'vscode-json-languageservice'
import { readBlocks, readPage, root } from '../../support/docs/pages.ts'
import { findTracked } from '../../support/tracked-files.ts'

const path = join(root, 'schemas/batch-file.json')
const schema = JSON.parse(readFileSync(path, 'utf8')) as object

t.test('the files of the project are valid, and slips are not', t => {
  const isValid = new Ajv2020({ strict: false }).compile(schema)
  const files = findTracked('examples/*.json', 'deploy/batches/*.json')
  t.ok(files.length > 10)
  const pages = ['docs/reference/named-batches.md', 'docs/guides/from-ad-hoc-to-named.md']
  const texts = pages.flatMap(page => readBlocks(readPage(page)))
    .filter(({ language, text }) => language === 'json' && text.includes('"operations"'))
    .map(({ text }) => text)
  t.ok(texts.length > 1)
  for (const text of [...files.map(file => readFileSync(join(root, file), 'utf8')), ...texts]) {
    const batch = JSON.parse(text) as unknown
    t.ok(isValid(batch), `${text.slice(0, 200)}: ${JSON.stringify(isValid.errors?.at(-1))}`)
  }
  const items = '$params.items'
  for (
    const operation of [
      { op: 'insert', values: items },
      { op: 'insert', from: { param: 'items' }, columns: { a: { $col: 'a' } } },
      { op: 'delete', from: { param: 'items', on: { a: 'a' } }, where: { b: { eq: 1 } } },
      { op: 'select', where: { a: { in: items } } }
    ]
  ) t.ok(isValid({ operations: [{ id: 'a', table: 't', ...operation }] }), operation.op)
  const select = { id: 'a', op: 'select', table: 't' }
  for (
    const slip of [
      [],
      {},
      [{ ...select, wheer: {} }],
      [{ id: 'a', op: 'insert', table: 't' }],
      { operations: [{ ...select, limit: 'all' }] },
      { operations: [select], parameters: {} }
    ]
  ) t.notOk(isValid(slip), JSON.stringify(slip))
  t.end()
})

t.test('the files of deploy/batches refer to the schema', t => {
  for (const file of findTracked('deploy/batches/*.json')) {
    const { $schema } = JSON.parse(readFileSync(join(root, file), 'utf8')) as { $schema: string }
    t.equal(resolve(root, 'deploy/batches', $schema), path, file)
  }
  t.end()
})

/** Asks the language service of an editor. `|` is the cursor. */
async function edit (
  text: string,
  uri = 'file:///project/deploy/batches/new.json'
): Promise<{ readonly labels: string[], readonly problems: readonly string[] }> {
  const [before, after = ''] = text.split('|') as [string, string?]
  const service = json.getLanguageService({
    schemaRequestService: url => Promise.resolve(
      url === 'file:///project/schemas/batch-file.json' ? JSON.stringify(schema) : '{}'
    ),
    workspaceContext: { resolveRelativePath: (path, from) => new URL(path, from).href }
  })
  const { 'json.schemas': [{ fileMatch, url }] } = JSON.parse(
    readFileSync(join(root, '.vscode/settings.json'), 'utf8')
  ) as { 'json.schemas': [{ fileMatch: string[], url: string }] }
  service.configure({ schemas: [{ fileMatch, uri: new URL(url, 'file:///project/').href }] })
  const document = json.TextDocument.create(uri, 'json', 1, `${before}${after}`)
  const parsed = service.parseJSONDocument(document)
  const completed = await service.doComplete(document, document.positionAt(before.length), parsed)
  const problems = await service.doValidation(document, parsed)
  return {
    labels: completed?.items.map(({ label }) => label) ?? [],
    problems: problems.map(({ message }) => String(message))
  }
}

const head = '{"$schema": "../../schemas/batch-file.json",'

t.test('an editor completes a batch', async t => {
  t.same((await edit(`${head} |}`)).labels.sort(), ['description', 'operations', 'params', 'roles'])
  const members = await edit(`${head} "operations": [{"id": "a", "op": "insert", |}]}`)
  t.ok(['table', 'values', 'on_conflict', 'returning'].every(name => members.labels.includes(name)))
  t.notOk(members.labels.includes('group_by'), 'no member of another operation')
  const example = await edit(
    '[{"id": "a", "op": "delete", |}]',
    'file:///project/examples/order.json'
  )
  t.ok(['table', 'where', 'all'].every(name => example.labels.includes(name)))
})

t.test('an editor shows a slip', async t => {
  const batch = '"operations": [{"id": "a", "op": "select", "table": "t"'
  t.same((await edit(`${head} ${batch}}]}`)).problems, [])
  t.match((await edit(`${head} ${batch}, "wheer": {}}]}`)).problems, [/wheer/])
})
