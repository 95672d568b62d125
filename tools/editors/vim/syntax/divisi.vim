" Dumps and plans of Divisi.
if exists("b:current_syntax")
  finish
endif
syntax match divisiComment "//.*$"
syntax region divisiString start=/"/ skip=/\\"/ end=/"/
syntax match divisiNumber /\v<-?\d+(\.\d+)?([eE][-+]?\d+)?>/
syntax match divisiType /\v<(i1|i8|i16|i32|i64|f16|bf16|f32|f64|index)>/
syntax match divisiType /\v<(tensor|memref|vector)>\ze\</
syntax match divisiAttribute /\v[#!][a-zA-Z_][a-zA-Z0-9_.$]*/
syntax match divisiValue /\v\%[a-zA-Z0-9_$.-]+/
syntax match divisiSymbol /\v\@[a-zA-Z0-9_$.-]+/
syntax match divisiOperation /\v<(graph|dist|exec|func|arith|scf|llvm|memref|math|cf)\.[a-zA-Z0-9_.]+/
syntax keyword divisiKeyword func module return attributes dense array true false unit loc

highlight default link divisiComment Comment
highlight default link divisiString String
highlight default link divisiNumber Number
highlight default link divisiType Type
highlight default link divisiAttribute PreProc
highlight default link divisiValue Identifier
highlight default link divisiSymbol Function
highlight default link divisiOperation Statement
highlight default link divisiKeyword Keyword
let b:current_syntax = "divisi"
