" Vim and Neovim have a file type mlir of their own for these files, after which setfiletype would do nothing.
autocmd BufRead,BufNewFile *.mlir set filetype=divisi
