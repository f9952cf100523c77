/**
 * SQL as an opaque type that a string cannot imitate: text enters only as a literal of the source
 * code, as a quoted identifier or as a parameter. Idea: pg-sql2. This file knows no statement.
 */

import { textOf, type Step } from './text-cache.ts'

const brand: unique symbol = Symbol('sql')

/** By template: its texts with every line break and indentation as one space. */
const singleLine = new WeakMap<TemplateStringsArray, readonly string[]>()

/** A piece of SQL. Made by the functions of this file alone. */
export interface Fragment {
  readonly [brand]: Node
}

type Node =
  /**
   * Texts of the source code with fragments between them: the same object for every run through the
   * same line.
   */
  | {
    readonly kind: 'template',
    readonly texts: readonly string[],
    readonly holes: readonly Fragment[]
  }
  | { readonly kind: 'list', readonly items: readonly Fragment[], readonly separator: Fragment }
  | { readonly kind: 'text', readonly text: string }
  | Parameter

interface Parameter {
  readonly kind: 'parameter'
  readonly value: string
  /** Whether it is one parameter wherever it stands in a statement. */
  readonly shared: boolean
}

/**
 * What PostgreSQL is sent: `$1` … in `text` stand for `parameters`, each the text form of its
 * value.
 */
export interface RenderedSql {
  readonly text: string
  readonly parameters: readonly string[]
}

/** SQL text of the source code with fragments in its holes. */
export function sql (texts: TemplateStringsArray, ...holes: readonly Fragment[]): Fragment {
  let joined = singleLine.get(texts)
  if (joined === undefined) {
    joined = texts.map(text => text.replaceAll(/\s*\n\s*/g, ' '))
    singleLine.set(texts, joined)
  }
  return { [brand]: { kind: 'template', texts: joined, holes } }
}

export const empty: Fragment = sql``

/** A name, quoted; dots in it are part of the name. The caller has checked its length. */
export function identifier (name: string): Fragment {
  return verbatim(`"${name.includes('"') ? name.replaceAll('"', '""') : name}"`)
}

/**
 * A value that never becomes SQL text. PostgreSQL infers its type from where it stands, so write a
 * cast where it cannot.
 */
export function parameter (value: string): Fragment {
  return { [brand]: { kind: 'parameter', value, shared: false } }
}

/**
 * A parameter that is sent once however often this fragment stands in a statement, so it has to be
 * of one type in all places.
 */
export function sharedParameter (value: string): Fragment {
  return { [brand]: { kind: 'parameter', value, shared: true } }
}

/**
 * A number of the configuration as text of the statement. PostgreSQL plans a LIMIT it does not know
 * for a tenth of the rows, and may then keep a plan that reads the whole table (measured: 0.44 ms
 * in the place of 0.05).
 */
export function integer (value: number): Fragment {
  return verbatim(String(Math.trunc(value)))
}

/**
 * A value as text of the statement, for the one place where PostgreSQL allows no parameter (the
 * predicate of a partial index). An escape string, which means the same whatever
 * standard_conforming_strings is.
 */
export function constant (value: string): Fragment {
  return verbatim(`E'${value.replaceAll(/[\\']/g, '$&$&')}'`)
}

/**
 * The same fragment, which has no parameters, as one text, so that what every statement contains
 * is put together only once.
 */
export function fixed (fragment: Fragment): Fragment {
  return verbatim(render(fragment).text)
}

/**
 * SQL text of one of the tables in schemas/, which is source code, with fragments in its `<holes>`.
 */
export function fill (text: string, holes: Readonly<Record<string, Fragment>>): Fragment {
  let parts = cut.get(text)
  if (parts === undefined) cut.set(text, parts = text.split(/<(\w+)>/))
  return join(parts.map((part, i) => i % 2 === 0 ? verbatim(part) : holes[part] as Fragment), empty)
}

/** By the text: its own pieces, and between them the names of its holes. */
const cut = new Map<string, readonly string[]>()

/** The fragments one after the other with `separator` between them. */
export function join (fragments: readonly Fragment[], separator: Fragment): Fragment {
  return { [brand]: { kind: 'list', items: fragments, separator } }
}

function verbatim (text: string): Fragment {
  return { [brand]: { kind: 'text', text } }
}

/** Text and numbered parameters, in the order they first stand. */
export function render (fragment: Fragment): RenderedSql {
  const shape: Step[] = []
  const parameters: string[] = []
  const shared = new Map<Parameter, number>()
  const walk = ({ [brand]: node }: Fragment): void => {
    switch (node.kind) {
      case 'template':
        shape.push(node.texts)
        for (const hole of node.holes) walk(hole)
        break
      case 'list':
        shape.push(-node.items.length)
        for (let i = 0; i < node.items.length; i++) {
          if (i > 0) walk(node.separator)
          walk(node.items[i] as Fragment)
        }
        break
      case 'text':
        shape.push(node.text)
        break
      case 'parameter': {
        const number = shared.get(node) ?? parameters.push(node.value)
        if (node.shared) shared.set(node, number)
        shape.push(number)
      }
    }
  }
  walk(fragment)
  return { text: textOf(shape), parameters }
}

/**
 * The text form of a PostgreSQL array of the given elements (docs: "Array Input and Output
 * Syntax").
 */
export function arrayText (elements: ReadonlyArray<string | number | null>): string {
  return `{${
    elements.map(element =>
      typeof element === 'string' ? `"${element.replace(/["\\]/g, '\\$&')}"` : String(element)
    ).join(',')
  }}`
}
