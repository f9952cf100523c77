/**
 * Rows of a parameter as JSON, whose members are written in the types that they meet. Those of an
 * upload are written while they arrive, and only their text is kept.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Type } from '../catalogue/type.ts'
import { has, type Json, type JsonObject } from '../json/parse.ts'
import type { WriteIssue } from './issue.ts'
import { writeMember } from './write.ts'

/** A member of rows, and the type in which it is written. */
interface RowMember {
  readonly name: string
  /** The column that it meets. */
  readonly column: string
  /** Its name in messages, if that is not the column. */
  readonly member?: string | undefined
  readonly type: Type
}

/** The members of rows that a statement takes. Others are sent as they are. */
export type RowMembers = readonly RowMember[]

/** What the statements of a batch take of rows, by the position of the rows among its values. */
export type MembersByPosition = ReadonlyMap<number | undefined, readonly RowMembers[]>

/** Called for a member that does not fit its type. */
type ReportMember = (member: RowMember, issue: WriteIssue) => void

/** Returns the row with its members as text of their types. */
export function writeRow (
  row: JsonObject,
  members: RowMembers,
  report: ReportMember
): JsonObject {
  let changed: Record<string, Json> | undefined
  for (const member of members) {
    const { name, type } = member
    if (!has(row, name)) continue
    const value = row[name] as Json
    const written = writeMember(value, type, issue => report(member, issue))
    if (written !== value) (changed ??= {})[name] = written
  }
  return changed === undefined ? row : { ...row, ...changed }
}

/** The rows of an upload as a JSON array in pieces, written for these members. */
export interface WrittenRows {
  readonly members: RowMembers
  readonly text: readonly Buffer[]
}

const uploads = new WeakMap<object, readonly WrittenRows[]>()

/** Returns a list of which only its texts are known; see writtenRows. */
export function listOfRows (written: readonly WrittenRows[]): readonly Json[] {
  const list: readonly Json[] = []
  uploads.set(list, written)
  return list
}

/** The texts of a list from listOfRows; undefined for another list. */
export function writtenRows (rows: readonly Json[]): readonly WrittenRows[] | undefined {
  return uploads.get(rows)
}

/** Returns the rows that were written in the types of these members. */
export function findWritten (
  written: readonly WrittenRows[],
  members: RowMembers
): readonly Buffer[] | undefined {
  return written.find(rows => areWrittenFor(rows.members, members))?.text
}

/** Leaves out each list of members for which rows are right that are written for another list. */
export function distinctMembers (all: readonly RowMembers[]): readonly RowMembers[] {
  const kept: RowMembers[] = []
  for (const members of all) {
    if (!kept.some(one => areWrittenFor(one, members))) kept.push(members)
  }
  return kept
}

/** Whether rows that are written for `one` are also written for `other`. */
function areWrittenFor (one: RowMembers, other: RowMembers): boolean {
  const types = new Map(one.map(({ name, type }) => [name, type]))
  return other.every(({ name, type }) => isDeepStrictEqual(types.get(name), type))
}
