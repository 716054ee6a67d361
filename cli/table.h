/* table.h: columns that stand below each other. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stddef.h>

#define TABLE_COLUMNS_MAX 8

/* Begins with { .columns = N } and a first row of headings. */
struct table {
    size_t columns;
    size_t rows;
    size_t room;
    char **cells; /* row after row; owned */
};

/* Copies the cells, made visible. */
void table_add(struct table *table, const char *const cells[]);
void table_print(const struct table *table);
void table_done(struct table *table);

#endif
