#ifndef DIVISI_DIALECTS_DIST_DOCUMENTATION
#define DIVISI_DIALECTS_DIST_DOCUMENTATION

// What an operation's description says beside its summary; test/lint/op_docs.py checks each part. A class of alike
// operations sets what they share. A text of several lines begins with a line break, and each of its lines with four
// blanks.
class Documented {
  string semantics = ?;   // an equation
  string tensors = ?;     // operands, results and attributes: shapes, element types, meaning
  string constraints = ?; // numbered; a verifier's message begins with "constraint N"
  string example = ?;     // operations of a function's body, or of a module
  string insertedBy = ?;
  string removedBy = ?;

  string documentation = "\n    **Semantics.** " # semantics
                       # "\n\n    **Operands and results.** " # tensors
                       # "\n\n    **Constraints.**\n" # constraints
                       # "\n\n    **Example.**\n\n    ```mlir" # example # "\n    ```"
                       # "\n\n    **Inserted by** " # insertedBy # ". **Removed by** " # removedBy # ".\n";
}

#endif
