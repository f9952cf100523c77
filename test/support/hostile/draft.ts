/**
 * An operation of a hostile batch as texts of its members. Texts, because JSON.stringify can write
 * neither duplicate keys nor long numbers.
 */

/** The forms of an operation. Each has members of its own, so that it is valid without others. */
export const frames = {
  select: { op: ['"select"'], table: ['"t"'] },
  count: { op: ['"select"'], table: ['"t"'], columns: ['{"fn":"count","as":"rows"}'] },
  insert: { op: ['"insert"'], table: ['"t"'] },
  upsert: {
    op: ['"insert"'],
    table: ['"t"'],
    'on_conflict.columns': ['"id"'],
    'on_conflict.do': ['"update"']
  },
  insert_from: { op: ['"insert"'], table: ['"t"'], 'from.table': ['"u"'] },
  update: { op: ['"update"'], table: ['"t"'] },
  update_from: {
    op: ['"update"'], table: ['"t"'], 'from.table': ['"u"'], 'from.on': ['"id":"id"']
  },
  bulk_update: { op: ['"update"'], table: ['"t"'], key: ['"id"'] },
  delete: { op: ['"delete"'], table: ['"t"'] },
  delete_from: {
    op: ['"delete"'], table: ['"t"'], 'from.table': ['"u"'], 'from.on': ['"id":"id"']
  },
  call: { op: ['"call"'], function: ['"f"'] },
  nested: { op: ['"select"'], table: ['"t"'] }
} as const satisfies Readonly<Record<string, Members>>

export type Frame = keyof typeof frames

/**
 * Texts by member; `from.where` is a member of `from`. A member that is a list, an object or a
 * filter has any number of texts, another one has one.
 */
export type Members = Readonly<Record<string, readonly string[]>>

/** What a frame has if no part gives it. */
const defaults: Partial<Readonly<Record<Frame, Members>>> = {
  insert: { values: ['{"a":"x"}'] },
  upsert: { values: ['{"id":1,"a":"x"}'] },
  insert_from: { columns: ['"a":{"$col":"a"}'] },
  update: { set: ['"a":"x"'], where: ['{"id":{"eq":1}}'] },
  update_from: { set: ['"a":"x"'] },
  bulk_update: { values: ['{"id":1,"a":"x"}'] },
  delete: { where: ['{"id":{"eq":1}}'] },
  nested: { with: ['"us":{"table":"u","on":{"t_id":"id"}}'] }
}

const filters = new Set(['where', 'having', 'index_where'])
const objects = new Set(['set', 'args', 'when', 'with', 'on'])
const lists = new Set(['values', 'columns', 'order', 'group_by', 'returning', 'after', 'key'])

/** Writes an operation. The last text of a member counts that has only one. */
export function writeOperation (id: string, frame: Frame, parts: readonly Members[]): string {
  const members = new Map<string, string[]>([['id', [`"${id}"`]]])
  const own = [frames[frame] as Members, ...parts]
  for (const part of [...own, defaults[frame] ?? {}]) {
    for (const [name, texts] of Object.entries(part)) {
      if (part === defaults[frame] && members.has(name)) continue
      // A part of 100 000 texts would overflow the stack as arguments.
      members.set(name, (members.get(name) ?? []).concat(texts))
    }
  }
  const groups = new Map<string, string[]>()
  const written: string[] = []
  for (const [name, texts] of members) {
    const [, outer = name, inner] = /^(from|on_conflict)\.(.*)$/s.exec(name) ?? []
    const isObject = frame === 'insert_from' && name === 'columns'
    const text = `"${inner ?? outer}":${writeMember(inner ?? outer, texts, isObject)}`
    if (inner === undefined) written.push(text)
    else groups.set(outer, [...groups.get(outer) ?? [], text])
  }
  for (const [name, texts] of groups) written.push(`"${name}":{${texts.join()}}`)
  return `{${written.join()}}`
}

function writeMember (name: string, texts: readonly string[], isObject: boolean): string {
  const last = texts.at(-1) as string
  if (filters.has(name)) return texts.length === 1 ? last : `{"and":[${texts.join()}]}`
  if (isObject || objects.has(name)) return `{${texts.join()}}`
  if (lists.has(name)) return `[${texts.join()}]`
  return last
}
