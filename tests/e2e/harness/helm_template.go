// SPDX-License-Identifier: BSD-3-Clause

// Renders a Helm chart as `helm template` does. (Debian has no package of Helm.)
//
//	go run helm_template.go CHART RELEASE [PATH=VALUE ...]
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "helm_template:", err)
		os.Exit(1)
	}
}

func load(path string) map[string]interface{} {
	var values map[string]interface{}
	text, err := os.ReadFile(path)
	must(err)
	must(yaml.UnmarshalStrict(text, &values))
	return values
}

func set(values map[string]interface{}, path, text string) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		values = values[name].(map[string]interface{})
	}
	last := names[len(names)-1]
	if _, known := values[last]; !known {
		must(fmt.Errorf("values.yaml has no %s", path))
	}
	var value interface{}
	must(yaml.Unmarshal([]byte(text), &value))
	values[last] = value
}

// Helm's own functions, beside those of sprig.
func functions(t *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := t.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"tpl": func(text string, data interface{}) (string, error) {
			var out bytes.Buffer
			clone := template.Must(t.Clone())
			parsed, err := clone.New("tpl").Parse(text)
			if err != nil {
				return "", err
			}
			err = parsed.Execute(&out, data)
			return out.String(), err
		},
		"toYaml": func(value interface{}) (string, error) {
			text, err := yaml.Marshal(value)
			return strings.TrimSuffix(string(text), "\n"), err
		},
	}
}

func main() {
	dir, release := os.Args[1], os.Args[2]
	values := load(filepath.Join(dir, "values.yaml"))
	for _, setting := range os.Args[3:] {
		path, value, _ := strings.Cut(setting, "=")
		set(values, path, value)
	}
	chart := load(filepath.Join(dir, "Chart.yaml"))
	data := map[string]interface{}{
		"Values":  values,
		"Release": map[string]interface{}{"Name": release, "Service": "Helm"},
		"Chart": map[string]interface{}{
			"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"],
		},
	}

	t := template.New("chart").Option("missingkey=error")
	t.Funcs(sprig.TxtFuncMap()).Funcs(functions(t))
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(err)
		_, err = t.New(filepath.Base(file)).Parse(string(text))
		must(err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "_") {
			continue
		}
		fmt.Println("---")
		must(t.ExecuteTemplate(os.Stdout, filepath.Base(file), data))
	}
}
