/**
 * Compares a service that has run a batch before a schema change with one that starts after it.
 * Service A has run the batch, so its record of the catalogue, its compiled statements and its
 * prepared ones are of the former schema. Service B meets the names of the batch for the first
 * time. Both run it in dry runs on the same database.
 */
import type { Test } from 'tap'
import { retriesOf, useService, type Answer, type ServiceUnderTest } from './service.ts'

export type Batch = readonly object[]

/**
 * Statements of a change. `$T` is the name of the table or the function, `$N` a suffix for other
 * names.
 */
export interface Statements {
  readonly create: string
  readonly change: string
  /** The schema of all tables, which the change replaces once for all of them. */
  readonly schema?: string
  /** Undoes the change of the schema. */
  readonly undo?: string
}

/** A word of the language with names of its own. */
export interface Case {
  readonly word: string
  readonly batch: Batch
  /** Replaces `$T` and `$N`. */
  readonly write: (text: string) => string
}

export interface Difference {
  readonly word: string
  readonly changed: unknown
  readonly fresh: unknown
}

let count = 0

/** Creates a case whose names no other case has. */
export function nameCase (
  word: string,
  schema: string | undefined,
  build: (names: { readonly table: string, readonly suffix: string }) => Batch
): Case {
  const suffix = `_${count++}`
  const table = `${schema === undefined ? '' : `${schema}.`}t${suffix}`
  return {
    word,
    batch: build({ table, suffix }),
    write: text => text.replaceAll('$T', table).replaceAll('$N', suffix)
  }
}

/** What a client sees of an answer. */
function seen ({ status, body }: Answer): unknown {
  const { request_id: _, ...error } = body.error ?? {}
  return { status, error, data: body.data }
}

const dryRun = { headers: { prefer: 'tx=rollback' } }

/**
 * Starts both services. `compare` returns the cases in which their answers differ, and whether
 * service A has noticed a change before there was one.
 */
export async function useCompared (t: Test, schema: string): Promise<{
  readonly a: ServiceUnderTest
  readonly b: ServiceUnderTest
  readonly compare: (
    cases: readonly Case[],
    statements: Statements
  ) => Promise<readonly Difference[]>
}> {
  const env = { POOL_SIZE: '1', LOG_LEVEL: 'error', DB_SCHEMAS: 'public,one,two' }
  const a = await useService(t, {
    schema: `create schema one; create schema two;
      grant usage on schema one, two to oneflight_user;
      alter default privileges grant all on tables to oneflight_user; ${schema}`,
    env
  })
  const { database } = a
  const b = await useService(t, { env, provide: async () => database })
  return {
    a,
    b,
    async compare (cases, { create, change, schema, undo }) {
      const run = async (text: string, isShared = false): Promise<void> => {
        const texts = isShared ? [text] : cases.map(({ write }) => write(text))
        await database.sql.unsafe(texts.join(';\n'))
      }
      await run(create)
      const repeat = async (some: readonly Case[]): Promise<string> => {
        for (const { batch } of some) for (let i = 0; i < 2; i++) await a.post(batch, dryRun)
        return JSON.stringify(await retriesOf(a))
      }
      // A failure may be due to a change, so its batch is retried.
      const failed: Case[] = []
      for (const one of cases) {
        if ((await a.post(one.batch, dryRun)).status !== 200) failed.push(one)
      }
      // Then its plan is shared, and its statements are prepared.
      const before = await repeat(failed)
      const after = await repeat(cases.filter(one => !failed.includes(one)))
      const different: Difference[] = before === after
        ? []
        : [{ word: 'the retries before the change', changed: after, fresh: before }]
      await run(change, schema !== undefined)
      for (const { word, batch } of cases) {
        const changed = seen(await a.post(batch, dryRun))
        const fresh = seen(await b.post(batch, dryRun))
        if (JSON.stringify(changed) !== JSON.stringify(fresh)) {
          different.push({ word, changed, fresh })
        }
      }
      if (undo !== undefined) await run(undo, true)
      return different
    }
  }
}
