/**
 * Reads BATCHES_DIR: all files of the folder whose names end with `.json`. A file becomes a
 * NamedBatch, or all of its issues with their positions. A reload replaces all batches at once.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join, basename } from 'node:path'
import { Value } from '@sinclair/typebox/value'
import { type Batch, batchName, NamedBatchFile, paramsId } from '../../schemas/batch.ts'
import type { Config } from '../../schemas/config.ts'
import { failure, type Failure } from '../errors/catalogue.ts'
import { describeBatchIssues, describePath } from '../errors/envelope.ts'
import { findSyntaxError, offsetOf, parseJsonText, positionOf } from '../json/json-text.ts'
import { isDeep, isObject, parseJson, type Json } from '../json/parse.ts'
import { batchLimits, type BatchLimits, validateBody } from '../plan/check/read-batch.ts'
import type { NamedBatch, NamedBatches } from './named-batch.ts'
import { readParameters } from './parameters.ts'
import { PlanCache, RequestPlanner } from './request-planner.ts'
import type { PathIssue } from './issues.ts'

/** The files of a folder, by path. */
export type BatchFiles = ReadonlyArray<readonly [path: string, bytes: Uint8Array]>

interface Loaded {
  readonly batches: NamedBatches
  readonly files: BatchFiles
}

/** The batches of a folder, or the issues of all of its files. */
export type ReadFolder = Loaded | { readonly issues: readonly string[] }

/** Without a folder there are no batches. */
export function readFolder (folder: string | undefined, limits: BatchLimits): ReadFolder {
  if (folder === undefined) return readFiles([], limits)
  const names = tryTo(() => readdirSync(folder).sort())
  if ('error' in names) return { issues: [`${folder}: The folder cannot be read.`] }
  const files: Array<BatchFiles[number]> = []
  const unreadable: string[] = []
  for (const name of names.result.filter(name => name.endsWith('.json'))) {
    const path = join(folder, name)
    const bytes = tryTo(() => readFileSync(path))
    if ('error' in bytes) unreadable.push(`${path}: The file cannot be read.`)
    else files.push([path, bytes.result])
  }
  const read = readFiles(files, limits)
  if (unreadable.length === 0) return read
  return { issues: [...unreadable, ...'issues' in read ? read.issues : []] }
}

/** Reads files whose content is known. */
function readFiles (files: BatchFiles, limits: BatchLimits): ReadFolder {
  const batches = new Map<string, NamedBatch>()
  const issues: string[] = []
  const plans = new PlanCache()
  for (const [path, bytes] of files) {
    const read = readNamedBatch(path, Buffer.from(bytes), limits, plans)
    if ('issues' in read) issues.push(...read.issues)
    else batches.set(read.batch.name, read.batch)
  }
  return issues.length > 0 ? { issues } : { batches, files }
}

/** A batch, or its issues: `order.json:3:5: operation 1 (items): …`. */
type ReadFile =
  | { readonly batch: NamedBatch }
  | { readonly issues: readonly string[] }

/** `name`: that of the file, as issues show it. */
export function readNamedBatch (
  name: string,
  bytes: Buffer,
  limits: BatchLimits,
  plans = new PlanCache()
): ReadFile {
  const id = basename(name, '.json')
  if (!batchName.test(id)) {
    return { issues: [`${name}: The name of the file must match ${batchName.source}.json.`] }
  }
  const read = readContent({ name: id, bytes }, limits, plans)
  if (!('issues' in read)) return { batch: read }
  const text = bytes.toString()
  const [root, error] = [parseJsonText(text), findSyntaxError(text)]
  const issues = read.issues.map(({ path, message }) => {
    const offset = error ?? (root === undefined ? 0 : offsetOf(root, path))
    const { line, column } = positionOf(text, offset)
    return `${name}:${line}:${column}: ${message}`
  })
  return { issues }
}

function readContent (
  { name, bytes }: { readonly name: string, readonly bytes: Buffer },
  limits: BatchLimits,
  plans: PlanCache
): NamedBatch | { readonly issues: readonly PathIssue[] } {
  const file = tryTo(() => parseJson(bytes))
  if ('error' in file) {
    const message = file.error.message.replaceAll('The body', 'The file')
    return { issues: [{ path: [], message }] }
  }
  const content = file.result
  const wrong = findShapeIssues(content)
  if (wrong.length > 0) return { issues: wrong }
  const { description, roles, params, operations } = content as unknown as NamedBatchFile
  const parameters = readParameters(params as Json | undefined)
  if (Array.isArray(parameters)) {
    return {
      issues: parameters.map(({ path, message }) => ({ path: ['params', ...path], message }))
    }
  }
  const declared = parameters as NamedBatch['parameters']
  const problem = validateBody(operations, limits.maxOps) ?? findReservedId(operations as Batch)
  if (problem !== undefined) return { issues: describeFailure(problem) }
  const planner = tryTo(() =>
    new RequestPlanner({ name, operations: operations as Batch }, limits, {
      known: declared.known,
      plans
    }))
  if ('error' in planner) return { issues: describeFailure(planner.error) }
  return {
    name,
    description,
    roles: roles && new Set(roles),
    schema: params === undefined ? {} : declared.schema,
    parameters: declared,
    planner: planner.result
  }
}

function findShapeIssues (content: Json): readonly PathIssue[] {
  if (!isObject(content)) {
    return [{ path: [], message: 'The file must be a JSON object with "operations".' }]
  }
  if (isDeep(content)) return [{ path: [], message: 'The file is nested too deeply.' }]
  return [...Value.Errors(NamedBatchFile, content)].map(({ path, message }) => {
    const steps = path.split('/').slice(1).map(step => /^\d+$/.test(step) ? Number(step) : step)
    return { path: steps, message: `"${describePath(steps)}": ${message}.` }
  })
}

/** Finds an operation with the id of the parameters: references to it would be ambiguous. */
function findReservedId (operations: Batch): Failure | undefined {
  const index = operations.findIndex(({ id }) => id === paramsId)
  if (index < 0) return undefined
  return failure('id_duplicate', `The id "${paramsId}" is reserved for the parameters.`, {
    op: paramsId,
    index
  })
}

/** The issues of a batch, with paths from the root of the file. */
function describeFailure ({ code, message, details }: Failure): readonly PathIssue[] {
  return describeBatchIssues({ code, message, ...details }).map(({ path, message }) =>
    ({ path: ['operations', ...path], message }))
}

/** Returns what the function returns, or the error that it throws: that of a file, or a Failure. */
function tryTo<Result> (
  run: () => Result
): { readonly result: Result } | { readonly error: Failure } {
  try {
    return { result: run() }
  } catch (error) {
    return { error: error as Failure }
  }
}

/** The batches of BATCHES_DIR, which can be replaced. */
export type BatchSet = ReturnType<typeof openBatchSet>

/**
 * Opens BATCHES_DIR, or takes `given` files instead. The message of the error for invalid files has
 * a line for each issue.
 */
export function openBatchSet (config: Config, given?: BatchFiles) {
  const { BATCHES_DIR: folder } = config
  const limits = batchLimits(config)
  const first = given === undefined ? readFolder(folder, limits) : readFiles(given, limits)
  if ('issues' in first) throw new Error(first.issues.join('\n'))
  let loaded: Loaded = first
  return {
    current: () => loaded.batches,
    /** The files of the current batches. */
    files: () => loaded.files,
    /** Reads the folder again. Returns its issues; if there are any, the current batches stay. */
    reload (): readonly string[] {
      const read = readFolder(folder, limits)
      if ('issues' in read) return read.issues
      loaded = read
      return []
    },
    /** Replaces the batches by those of other files, which are known to be valid. */
    replace (files: BatchFiles): void {
      loaded = readFiles(files, limits) as Loaded
    }
  }
}
