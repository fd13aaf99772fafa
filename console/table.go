package console

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
)

// Table is a command's answer in rows. Its zero value is empty. It is not safe for concurrent use.
type Table struct {
	// Columns are the names above the columns, and those of the members in JSON.
	Columns []string
	// Rows have a cell for each column.
	Rows [][]any
	// More is a line below the table, for example that there is more.
	More string
}

// Add appends a row.
func (t *Table) Add(cells ...any) { t.Rows = append(t.Rows, cells) }

// oneLine keeps what a cell shows in its cell.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// String returns the table as text, with columns of equal width.
func (t Table) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(strings.Join(t.Columns, "\t")))
	for _, row := range t.Rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, oneLine.Replace(fmt.Sprint(cell)))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a Builder takes everything
	if t.More != "" {
		b.WriteString(t.More + "\n")
	}
	return b.String()
}

// MarshalJSON returns a list of objects, one for each row.
func (t Table) MarshalJSON() ([]byte, error) {
	list := make([]map[string]any, len(t.Rows))
	for i, row := range t.Rows {
		list[i] = map[string]any{}
		for j, cell := range row {
			list[i][strings.ReplaceAll(t.Columns[j], " ", "_")] = cell
		}
	}
	return json.Marshal(list)
}
