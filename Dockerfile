# The production image: Node and production dependencies only, without compiler and development
# database. Does not run as root.
FROM node:24.21.0-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# The optional dependency is the PostgreSQL server for development. No production dependency needs
# its install script. Documentation, source maps and types are a third of the size.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund \
 && npm cache clean --force \
 && find node_modules -type f \( -name '*.map' -o -name '*.md' \
      -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM node:24.21.0-slim
ENV NODE_ENV=production \
    HTTP_HOST=0.0.0.0 \
    ADMIN_HTTP_HOST=0.0.0.0
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json ./
COPY schemas ./schemas
COPY plugins ./plugins
COPY src ./src
# Used by `node src/migrate.ts`.
COPY deploy/migrate.sql ./deploy/migrate.sql
USER node
EXPOSE 4000 9568
# Liveness, not readiness: a restart does not help while the database is unavailable.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.ADMIN_HTTP_PORT || 9568}/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Node is process 1 and receives the signals.
CMD ["node", "src/main.ts"]
