/** Compiles texts in the folder of the client, whose sources are in `./src/`. */
import { join } from 'node:path'
import ts from 'typescript'

const file = join(import.meta.dirname, '../../client/probe.ts')

/** Parsed and bound files, shared by all programs. */
const parsed = new Map<string, ts.SourceFile | undefined>()

/** Compiles `text`. Returns the messages of tsc by line, and the number of type instantiations. */
export function compile (
  text: string,
  more: ts.CompilerOptions = {}
): { readonly messages: ReadonlyMap<number, string>, readonly instantiations: number } {
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    target: ts.ScriptTarget.ES2022,
    module: ts.ModuleKind.NodeNext,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    types: [],
    lib: ['lib.es2023.d.ts', 'lib.dom.d.ts'],
    ...more
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = host
  host.fileExists = name => name === file || fileExists(name)
  host.getSourceFile = (name, ...rest) => {
    if (name === file) return ts.createSourceFile(name, text, ts.ScriptTarget.ES2022)
    if (!parsed.has(name)) parsed.set(name, getSourceFile(name, ...rest))
    return parsed.get(name)
  }
  const program = ts.createProgram([file], options, host)
  // Without `strict`, the source of the client has errors, which its declarations do not have.
  const found = ts.getPreEmitDiagnostics(program).filter(({ file: source }) =>
    options.strict === true || source?.fileName === file
  )
  const messages = found.map(({ messageText, start = 0 }) =>
    [
      text.slice(0, start).split('\n').length,
      ts.flattenDiagnosticMessageText(messageText, '\n')
    ] as const
  )
  return { messages: new Map(messages), instantiations: program.getInstantiationCount() }
}
