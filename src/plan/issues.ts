/**
 * Where planning writes what it finds: faults, as many of them as an answer has room for, and
 * references.
 */
import type { Issue, IssueCode } from '../../schemas/error.ts'
import { Failure, failure } from '../errors/catalogue.ts'
import type { PlanContext, Path, ReferenceUse } from './nodes.ts'
import { readString } from './reference.ts'

/**
 * Characters of all faults that are listed: each repeats id and path, so a mebibyte of body could
 * become 500 of answer.
 */
const maxFaultsLength = 262_144

/** The faults of a batch. */
export interface Issues {
  add(fault: Issue): void
  /**
   * Throws `validation_failed` when there is a fault: status 422, or 403 when nothing but forbidden
   * schemas is wrong.
   */
  refuse(): void
}

export function collectIssues (): Issues {
  const listed: Issue[] = []
  let count = 0
  let length = 0
  let forbidden = true
  return {
    add (fault) {
      count++
      forbidden &&= fault.code === 'schema_forbidden'
      if (length > maxFaultsLength) return
      length += JSON.stringify(fault).length
      if (length <= maxFaultsLength || count === 1) listed.push(fault)
    },
    refuse () {
      if (count === 0) return
      const message = count === 1
        ? listed[0]?.message
        : `The batch has ${count} faults${
          listed.length < count ? `, of which the first ${listed.length} are listed` : ''
        }.`
      const refused = failure('validation_failed', message, { errors: listed })
      throw forbidden
        ? new Failure({
          type: refused.type,
          code: refused.code,
          status: 403,
          message: refused.message,
          details: refused.details
        })
        : refused
    }
  }
}

interface Collected {
  readonly op: string
  readonly index: number
  readonly faults: Issues
  readonly referenceUses: Map<number, ReferenceUse[]>
  /** Index of every earlier operation by its id. */
  readonly earlier: ReadonlyMap<string, number>
}

/** The findings of operation `index`, which go into what the whole batch shares. */
export function createPlanContext (
  { op, index, faults, referenceUses, earlier }: Collected
): PlanContext {
  const fault = (code: IssueCode, path: Path, message: string): undefined =>
    faults.add({ op, index, code, path: [...path], message }) as undefined
  const read: PlanContext['read'] = (text, path) => {
    const meaning = readString(text, earlier)
    if (meaning.kind === 'unknown') fault('reference_unknown', path, meaning.message)
    if (meaning.kind === 'malformed') fault('reference_malformed', path, meaning.message)
    return meaning
  }
  return {
    fault,
    read,
    string (text, path, rows = 0) {
      const meaning = read(text, path)
      if (meaning.kind !== 'reference') return meaning.kind === 'data' ? meaning.text : text
      const reading = {
        reference: meaning,
        reader: index,
        rows: meaning.row === '*' ? rows : meaning.row + 1
      }
      const known = referenceUses.get(meaning.source)
      if (known === undefined) referenceUses.set(meaning.source, [reading])
      else known.push(reading)
      return meaning
    }
  }
}
