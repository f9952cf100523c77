/**
 * Reads the pages of the documentation: the list of pages, their fenced blocks with the comment
 * that says how each is checked, their links and anchors.
 */
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { findTracked } from '../tracked-files.ts'

export const root = resolve(import.meta.dirname, '../../..')

/** Returns the paths of all Markdown files, relative to the root of the project. */
export function listPages (): readonly string[] {
  return findTracked('**/*.md')
}

export function readPage (path: string): string {
  return readFileSync(join(root, path), 'utf8')
}

export const languagePages: readonly string[] = [
  'docs/reference/language.md',
  'docs/reference/filters.md',
  'docs/reference/preferences.md'
]

export function readLanguage (): string {
  return languagePages.map(readPage).join('\n')
}

/** How a block is checked, from the comment directly above it. */
export type Check =
  | { readonly kind: 'run', readonly where: string }
  | { readonly kind: 'run by', readonly file: string }
  | { readonly kind: 'not run', readonly reason: string }
  | { readonly kind: 'answer' }

export interface Block {
  /** The word after the fence, or ''. */
  readonly language: string
  readonly text: string
  /** The line number of its fence, from 1. */
  readonly line: number
  /** The last heading above the block. */
  readonly heading: string
  readonly check: Check | undefined
}

const FENCE = /^(\s*)(`{3,}|~{3,})\s*([\w-]*)/

/** Returns all fenced blocks of a page in order, including indented ones. */
export function readBlocks (page: string): readonly Block[] {
  const lines = page.split('\n')
  const blocks: Block[] = []
  let heading = ''
  for (let i = 0; i < lines.length; i++) {
    const [, indent = '', fence = '', language = ''] = FENCE.exec(lines[i] as string) ?? []
    heading = /^#+ (.*)$/.exec(lines[i] as string)?.[1] ?? heading
    if (fence === '') continue
    const start = i++
    while (i < lines.length && lines[i]?.trim() !== fence) i++
    const text = lines.slice(start + 1, i).map(line =>
      line.startsWith(indent) ? line.slice(indent.length) : line
    ).join('\n')
    const check = readCheck(lines[start - 1] ?? '')
    blocks.push({ language, text, line: start + 1, heading, check })
  }
  return blocks
}

function readCheck (line: string): Check | undefined {
  const [, kind, rest = ''] =
    /^\s*<!-- (run by|run|not run|answer)(?:: (.+?))? -->\s*$/.exec(line) ?? []
  switch (kind) {
    case 'run':
      return { kind, where: rest }
    case 'run by':
      return { kind, file: rest }
    case 'not run':
      return { kind, reason: rest }
    case 'answer':
      return { kind }
    default:
      return undefined
  }
}

/** Removes the white space of JSON. Digits and the order of keys stay. */
export function compact (json: string): string {
  return json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1')
}

/** Removes blocks and comments from a page. Links and headings remain. */
function proseOf (page: string): string {
  const kept: string[] = []
  let open: string | undefined
  for (const line of page.split('\n')) {
    const fence = FENCE.exec(line)?.[2]
    if (open !== undefined) open = line.trim() === open ? undefined : open
    else if (fence !== undefined) open = fence
    else kept.push(line)
  }
  return kept.join('\n').replaceAll(/<!--[\s\S]*?-->/g, '')
}

/** Returns the targets of all links and images of a page, as written. */
export function linksOf (page: string): readonly string[] {
  const prose = proseOf(page).replaceAll(/`[^`\n]*`/g, '`')
  return [
    ...Array.from(
      prose.matchAll(/\]\(<?([^()\s>]+(?:\([^()\s]*\)[^()\s>]*)?)>?(?:\s+"[^"]*")?\)/g),
      ([, target]) => target as string
    ),
    ...Array.from(prose.matchAll(/^\s*\[[^\]]+\]:\s*(\S+)/gm), ([, target]) => target as string),
    ...Array.from(
      prose.matchAll(/\b(?:href|src|srcset)="([^"]+)"/g),
      ([, target]) => target as string
    )
  ]
}

/** Returns the anchors of a page: those that GitHub derives from headings, and those in HTML. */
export function anchorsOf (page: string): ReadonlySet<string> {
  const prose = proseOf(page)
  const anchors = new Set(
    Array.from(prose.matchAll(/\b(?:id|name)="([^"]+)"/g), ([, name]) => name as string)
  )
  const seen = new Map<string, number>()
  for (const [, heading = ''] of prose.matchAll(/^#{1,6}\s+(.*?)\s*#*$/gm)) {
    const title = heading.replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase()
    const slug = title.replaceAll(/[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu, '').replaceAll(' ', '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  return anchors
}
