autocmd BufRead,BufNewFile *.mlir setfiletype divisi
