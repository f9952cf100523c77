/**
 * Tests docs/guides/sync-engines.md: its programs compile, and run with the real packages, which
 * are those of examples/clients/. The feed of TanStack DB is the table itself, whose rows have the
 * id of their transaction as `xmin`. The database of PowerSync is a local one, which is not
 * connected to a sync service.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import type { createClient, ClientOptions } from '../../client/src/index.ts'
import { compileClient } from '../support/process/client-browser.ts'
import { readBlocks, readPage, root } from '../support/docs/pages.ts'
import { token, useService, type ServiceUnderTest } from '../support/service.ts'
import { until } from '../support/until.ts'

const schema = `
  create table todos (id text primary key, title text not null check (title <> ''),
    done int not null default 0);
  create table log (n int generated always as identity, id text);
  create function log_change() returns trigger language plpgsql security definer as $$ begin
    insert into log (id) values (coalesce(new.id, old.id)); return null; end $$;
  create trigger log_change after insert or update or delete on todos
    for each row execute function log_change();`
const compilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: 'es2024',
  lib: ['es2024', 'dom'],
  module: 'nodenext',
  allowImportingTsExtensions: true,
  erasableSyntaxOnly: true,
  types: ['node'],
  typeRoots: [join(root, 'node_modules/@types')]
}

/** The programs of the page, as files that import the compiled client. */
const folder = t.testdir({
  'package.json': '{"type":"module"}',
  'tsconfig.json': JSON.stringify({ compilerOptions, include: ['*.ts'] })
})
const client = join(folder, 'node_modules/oneflight-client')
await mkdir(client, { recursive: true })
await cp(join(root, 'client/package.json'), join(client, 'package.json'))
await compileClient(join(client, 'dist'))
for (const scope of ['@powersync', '@tanstack']) {
  const installed = join(root, 'examples/clients/node_modules', scope)
  await symlink(installed, join(folder, 'node_modules', scope))
}
await writeFile(
  join(folder, 'powersync.ts'),
  "export * from '@powersync/common'\nexport * from '@powersync/node'\n"
)
for (const { language, text } of readBlocks(readPage('docs/guides/sync-engines.md'))) {
  const [, name] = /^\/\/ ([\w.-]+)\n/.exec(text) ?? []
  if (language === 'ts') await writeFile(join(folder, name as string), text)
}
const load = async (name: string): Promise<any> =>
  await import(pathToFileURL(join(folder, name)).href)
/** The client that the programs import: its errors have the same class. */
const compiled: { readonly createClient: typeof createClient } =
  await load('node_modules/oneflight-client/dist/index.js')
const useClient = (
  { url }: ServiceUnderTest,
  options: Pick<ClientOptions, 'fetch' | 'retry'> = {}
) =>
  compiled.createClient({ url, token: () => token({ role: 'oneflight_user' }), ...options })

interface Todo { id: string, title: string, done: number }

t.test('the programs compile', async t => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const checked = promisify(execFile)(process.execPath, [tsc, '-p', folder])
  t.equal(await checked.then(() => '', ({ stdout }: { stdout: string }) => stdout), '')
})

/** A feed that delivers the table on request. */
function createFeed ({ database: { sql } }: ServiceUnderTest): any {
  const waiting = new Map<number, () => void>()
  const begun = Promise.withResolvers<any>()
  return {
    sync (params: { markReady: () => void }) {
      begun.resolve(params)
      params.markReady()
    },
    rowUpdateMode: 'full',
    waiting,
    async awaitXid (xid: number) {
      await new Promise<void>(resolve => waiting.set(xid, resolve))
    },
    async deliver () {
      const { begin, write, commit, truncate } = await begun.promise
      const rows = await sql`select xmin::text, t.* from todos as t order by id`
      begin()
      truncate()
      for (const { xmin, ...value } of rows) write({ type: 'insert', value })
      commit()
      for (const { xmin } of rows) waiting.get(Number(xmin))?.()
    }
  }
}

t.test('TanStack DB keeps a change until its transaction arrives', async t => {
  const service = await useService(t, { schema, keys: true })
  const { openTodos } = await load('todos.ts')
  const feed = createFeed(service)
  const todos = openTodos(useClient(service), feed)
  await todos.preload()

  const transaction = todos.insert([
    { id: 'a', title: 'one', done: 0 },
    { id: 'b', title: 'two', done: 0 }
  ])
  t.equal(todos.size, 2, 'shown at once')
  await until(() => feed.waiting.size === 1)
  t.equal(transaction.state, 'persisting')
  const rows = await service.database.sql`select distinct xmin::text from todos`
  t.strictSame([...feed.waiting.keys()], rows.map(({ xmin }) => Number(xmin)), 'one transaction')
  await feed.deliver()
  await transaction.isPersisted.promise
  t.equal(transaction.state, 'completed')

  const change = todos.update('a', (todo: Todo) => {
    todo.done = 1
  })
  await until(() => feed.waiting.size === 2)
  await feed.deliver()
  await change.isPersisted.promise
  t.match(todos.get('a'), { id: 'a', title: 'one', done: 1 })

  const refused = todos.insert({ id: 'c', title: '', done: 0 })
  t.ok(todos.has('c'))
  await t.rejects(refused.isPersisted.promise, { code: 'check_violation' })
  t.notOk(todos.has('c'), 'taken back')
})

async function openLocal (t: Test): Promise<any> {
  const { column, PowerSyncDatabase, Schema, Table } = await load('powersync.ts')
  const database = {
    dbFilename: 'local.db',
    dbLocation: t.testdir(),
    implementation: { type: 'node:sqlite' }
  }
  const table = new Table({ title: column.text, done: column.integer })
  const local = new PowerSyncDatabase({ schema: new Schema({ todos: table }), database })
  t.teardown(() => local.close())
  await local.init()
  return local
}

t.test('PowerSync sends each transaction as one batch, once', async t => {
  const service = await useService(t, { schema, keys: true })
  const { sql } = service.database
  const { Connector } = await load('connector.ts')
  const local = await openLocal(t)
  const insert = 'insert into todos (id, title, done) values (?, ?, ?)'
  await local.writeTransaction(async (tx: any) => {
    await tx.execute(insert, ['a', 'one', 0])
    await tx.execute(insert, ['b', 'two', 0])
    await tx.execute('update todos set done = 1 where id = ?', ['a'])
  })
  await local.writeTransaction(async (tx: any) => {
    await tx.execute('delete from todos where id = ?', ['b'])
    await tx.execute(insert, ['c', '', 0])
  })
  await local.execute('update todos set title = ? where id = ?', ['three', 'a'])

  const refused: Array<readonly [ids: readonly string[], code: string]> = []
  const report = (
    changes: ReadonlyArray<{ readonly id: string }>,
    { code }: { readonly code: string }
  ): void => {
    refused.push([changes.map(({ id }) => id), code])
  }
  const lost = useClient(service, {
    retry: false,
    async fetch (...request) {
      await fetch(...request as Parameters<typeof fetch>)
      throw new TypeError('the response is lost')
    }
  })
  await t.rejects(new Connector(lost, report).uploadData(local), { code: 'network_error' })
  const changes = async (): Promise<readonly string[]> =>
    (await sql`select id from log order by n`).map(({ id }) => String(id))
  t.strictSame(await changes(), ['a', 'b', 'a'], 'committed, and still in the queue')

  const answers: Array<readonly [replayed: boolean, status: number]> = []
  const connected = useClient(service, {
    async fetch (...request) {
      const answer = await fetch(...request as Parameters<typeof fetch>)
      answers.push([answer.headers.has('idempotent-replayed'), answer.status])
      return answer
    }
  })
  await new Connector(connected, report).uploadData(local)
  t.strictSame(answers, [[true, 200], [false, 400], [false, 200]])
  t.strictSame(refused, [[['b', 'c'], 'check_violation']])
  t.strictSame(await changes(), ['a', 'b', 'a', 'a'], 'the first transaction is not run again')
  t.strictSame([...await sql`select * from todos order by id`], [
    { id: 'a', title: 'three', done: 1 },
    { id: 'b', title: 'two', done: 0 }
  ])
  t.equal(await local.getNextCrudTransaction(), null, 'the queue is empty')
})
