// Renders a chart with text/template, the engine of Helm, and the few functions of Helm's that the
// chart uses. For machines without helm; where it is installed, it is asked instead.
//
//	go run render.go TEMPLATES_DIR VALUES_JSON FILE
package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"text/template"
)

func main() {
	must := func(err error) {
		if err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	text, err := os.ReadFile(os.Args[2])
	must(err)
	var values map[string]interface{}
	must(json.Unmarshal(text, &values))
	all := template.New("chart").Option("missingkey=error")
	toJson := func(value interface{}) string {
		text, err := json.Marshal(value)
		must(err)
		return string(text)
	}
	all.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"toJson": toJson,
		"quote":  func(value interface{}) string { return toJson(value) },
		"default": func(fallback, value interface{}) interface{} {
			if value == nil || value == "" {
				return fallback
			}
			return value
		},
		"add": func(a, b interface{}) int64 { return number(a) + number(b) },
		"dict": func(pairs ...interface{}) map[string]interface{} {
			made := map[string]interface{}{}
			for i := 0; i+1 < len(pairs); i += 2 {
				made[pairs[i].(string)] = pairs[i+1]
			}
			return made
		},
	})
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*"))
	must(err)
	_, err = all.ParseFiles(files...)
	must(err)
	must(all.ExecuteTemplate(os.Stdout, os.Args[3], map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Name": "test", "Namespace": "agents"},
		"Chart":   map[string]interface{}{"AppVersion": "0.1.0"},
	}))
}

func number(value interface{}) int64 {
	switch value := value.(type) {
	case float64:
		return int64(value)
	case int:
		return int64(value)
	}
	return 0
}
