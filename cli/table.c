/* table.c: how do rows of unequal words become a table?
 *
 * All rows are kept until the widest cell of each column is known. Cells are made visible first,
 * because what is aligned must be what is shown. An empty cell is shown as "-", so that every row
 * has as many words as there are columns where no cell holds blanks. */
#include "table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "text.h"

void table_add(struct table *table, const char *const cells[])
{
    assert(table->columns > 0 && table->columns <= TABLE_COLUMNS_MAX);

    if (table->rows == table->room) {
        table->room = table->room ? table->room * 2 : 16;
        table->cells = memory_grow(table->cells, table->room * table->columns, sizeof(char *));
    }
    for (size_t i = 0; i < table->columns; i++) {
        const char *text = *cells[i] ? cells[i] : "-";

        table->cells[table->rows * table->columns + i] = text_visible_new(text);
    }
    table->rows++;
}

void table_print(const struct table *table)
{
    size_t widths[TABLE_COLUMNS_MAX] = { 0 };
    size_t cells = table->rows * table->columns;

    for (size_t i = 0; i < cells; i++) {
        size_t width = text_columns(table->cells[i]);

        if (widths[i % table->columns] < width)
            widths[i % table->columns] = width;
    }
    for (size_t i = 0; i < cells; i++) {
        size_t column = i % table->columns;
        size_t padding = widths[column] - text_columns(table->cells[i]) + 2;

        if (column + 1 == table->columns)
            printf("%s\n", table->cells[i]);
        else
            printf("%s%*s", table->cells[i], (int)padding, "");
    }
}

void table_done(struct table *table)
{
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
    *table = (struct table){ .columns = table->columns };
}
