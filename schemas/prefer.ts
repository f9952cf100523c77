/**
 * The words of the `Prefer` header (RFC 7240): every preference the service knows, with its values,
 * its default and its meaning. The reading of the header, what a flight is told and the table in
 * docs/reference/language.md are all made from this one object.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

/**
 * What is said of a preference, beside TypeBox's own words. A preference always has one of its
 * values: without the header its default.
 */
export interface PreferenceItem {
  readonly anyOf: ReadonlyArray<{ readonly const: string }>
  readonly default: string
  readonly description: string
}

/**
 * The value of a preference that is asked for by its name alone: an empty one is none (RFC 7240
 * §2).
 */
export const asked = ''
const byName = [Type.Literal('off'), Type.Literal(asked)] as const

export const Preferences = Type.Object({
  tx: Type.Union([Type.Literal('commit'), Type.Literal('rollback')], {
    default: 'commit',
    description:
      '`rollback` is a dry run: everything happens and is answered, deferred constraints ' +
      'are checked too, and nothing stays but the values that sequences gave out'
  }),
  isolation: Type.Union([
    Type.Literal('read-committed'),
    Type.Literal('repeatable-read'),
    Type.Literal('serializable')
  ], {
    default: 'read-committed',
    description: 'isolation level of the transaction; a batch that cannot be serialized is tried ' +
      'again, then answered 409 `serialization_failure`'
  }),
  access: Type.Union([Type.Literal('read-write'), Type.Literal('read-only')], {
    default: 'read-write',
    description: 'under `read-only` whatever would write or lock rows is refused, 403 ' +
      '`read_only_sql_transaction`; a standby serves nothing else'
  }),
  return: Type.Union([Type.Literal('representation'), Type.Literal('minimal')], {
    default: 'representation',
    description:
      '`minimal` answers the number of rows of each operation in the place of the rows: ' +
      '`{"order": 1}`'
  }),
  explain: Type.Union([...byName], {
    default: 'off',
    description:
      "with `EXPLAIN=on` PostgreSQL's plan of each operation is answered in the place of " +
      'its rows, and nothing is run; without it the batch is refused, 400 `prefer_invalid`'
  }),
  timing: Type.Union([...byName], {
    default: 'off',
    description: 'the answer says in `Server-Timing` what took how long, in milliseconds: the ' +
      'request, plan, wait for a connection, session, operations (the 20 slowest), commit'
  }),
  handling: Type.Union([Type.Literal('lenient'), Type.Literal('strict')], {
    default: 'lenient',
    description:
      'under `strict` an unknown preference, an unknown value or a malformed header is ' +
      'refused, 400 `prefer_invalid`; else it is ignored'
  })
})
export type Preferences = Readonly<Static<typeof Preferences>>
export type PreferenceName = keyof Preferences

/** Every preference with what is said of it, in the order of the documentation. */
export const preferenceItems: ReadonlyMap<string, PreferenceItem> = new Map(
  Object.entries(Preferences.properties) as unknown as ReadonlyArray<
    [PreferenceName, PreferenceItem]
  >
)

/** A preference as a header has it: `tx=rollback`, `explain`. */
export function renderPreference (name: string, value: string): string {
  return value === asked ? name : `${name}=${value}`
}

/** A value for readers, in Markdown. */
export function describeValue (value: string): string {
  return value === asked ? 'by its name alone' : `\`${value}\``
}

/** What a batch does without the header. */
export const defaultPreferences: Preferences = Value.Create(Preferences)
