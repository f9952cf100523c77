/**
 * Opens one socket in a process of its own: `node open-socket.ts <host:port> <query>` prints "open"
 * or the error's message.
 */
import { open } from './sockets.ts'

const [, , host = '', query = ''] = process.argv
await open(host, query, 0, 5000).then(({ socket }) => {
  socket.destroy()
  console.log('open')
}, (error: Error) => console.log(error.message))
