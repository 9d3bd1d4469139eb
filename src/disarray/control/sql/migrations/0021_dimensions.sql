-- Dimensions: which columns of tables of readings hold numbers, and the tables that say what each number stands for.
-- breaking: no

create table disarray.dimension (
    dataset text not null,
    column_name text not null,
    table_name text not null,
    created_at timestamptz not null,
    constraint dimension_pkey primary key (dataset, column_name),
    constraint a_dimension_table_serves_one_column unique (table_name)
);
comment on table disarray.dimension is
    'Tables in schema telemetry that hold the values of a column once. One whose column is no dimension any more stays, and is taken up '
    'again should it become one.';
comment on column disarray.dimension.column_name is 'The column of the table of readings.';
