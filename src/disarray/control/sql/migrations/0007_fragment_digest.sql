-- What the bytes of a fragment are recognized by whenever they are read.
-- breaking: no

alter table disarray.fragment
add column digest text;
comment on column disarray.fragment.digest is
    'BLAKE3 of the bytes of its row group (the magic before the first one included), then of the footer of its file, 16 bytes '
    'each, in hex. NULL: written before there were any; then the checksum of the whole file is compared.';
