package bench

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublish(t *testing.T) {
	table := &Table{Head: []string{"what", "n"}}
	table.Add("a", "1")
	configuration := []string{"load: little"}
	file := filepath.Join(t.TempDir(), "b.md")
	var out strings.Builder
	if err := Publish(&out, file, configuration, table, map[string]int{"bench": 1}); err != nil {
		t.Fatal(err)
	}
	run := strings.Join(common(), "\n")
	if want := "\n" + run + "\nload: little\n\nwhat  n\na     1\n{\"bench\":1}\n"; out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
	text, err := os.ReadFile(file)
	onPage := "- " + strings.ReplaceAll(run, "\n", "\n- ")
	want := "<!-- bench-b -->\n\n" + onPage + "\n- load: little\n\n| what | n |\n| --- | ---: |\n| a | 1 |\n\n" +
		"<!-- /bench-b -->\n"
	if err != nil || string(text) != want {
		t.Errorf("saved %q, %v, want %q", text, err, want)
	}
	out.Reset()
	if err := Publish(&out, file, nil, table, 1, table); err != nil || out.String() != "\n"+run+"\n\nwhat  n\na     "+
		"1\n\nwhat  n\na     1\n1\n" {
		t.Errorf("two tables: %q, %v", out.String(), err)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n| what |") != 2 {
		t.Errorf("two tables saved: %q, %v", text, err)
	}
	if err := Publish(&out, "", configuration, table, nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
	if err := Publish(&out, filepath.Join(file, "x"), configuration, table, nil); err == nil {
		t.Error("saved into a file as if it were a folder")
	}
}

// TestPublishIntoPage replaces the run of a page, and nothing else.
func TestPublishIntoPage(t *testing.T) {
	const mark, end = "<!-- bench-page -->\n", "<!-- /bench-page -->\n"
	now := mark + "\n- " + strings.Join(common(), "\n- ") + "\n- now\n\n| n |\n| --- |\n\n" + end
	other := "<!-- bench-page-redis -->\nold\n<!-- /bench-page-redis -->\n"
	for before, want := range map[string]string{
		"# Page\n\n" + mark + "old\n" + end + "\nWhy.\n" + other: "# Page\n\n" + now + "\nWhy.\n" + other,
		"# Page\n\n" + other: "# Page\n\n" + other + now,
	} {
		file := filepath.Join(t.TempDir(), "page.md")
		if err := os.WriteFile(file, []byte(before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Publish(io.Discard, file, []string{"now"}, &Table{Head: []string{"n"}}, 1); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%q became %q, %v, want %q", before, text, err, want)
		}
	}
}
