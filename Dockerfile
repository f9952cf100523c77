# The production image: Node alone, production dependencies alone, no compiler, no development database, not root.
FROM node:24-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
# Optional dependencies are the PostgreSQL servers of development. No install script of a production dependency is needed.
# What only people and compilers read is a third of the size.
RUN npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund && npm cache clean --force \
 && find node_modules -type f \( -name '*.map' -o -name '*.md' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' \) -delete

FROM node:24-slim
ENV NODE_ENV=production \
    HTTP_HOST=0.0.0.0 \
    ADMIN_HTTP_HOST=0.0.0.0
WORKDIR /app
COPY --from=dependencies /app/node_modules ./node_modules
COPY package.json ./
COPY schemas ./schemas
COPY plugins ./plugins
COPY src ./src
# What `node src/migrate.ts` runs.
COPY deploy/migrate.sql ./deploy/migrate.sql
USER node
EXPOSE 4000 9568
# Liveness, not readiness: a database that is away is no reason to restart the service.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.ADMIN_HTTP_PORT || 9568}/live`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
# Node itself is process 1 and gets the signals.
CMD ["node", "src/main.ts"]
