package main

import (
	"encoding/json"
	"io"

	"github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfbridge"
	shim "github.com/pulumi/pulumi-terraform-bridge/v3/pkg/tfshim"
)

// member is a resource or a function as sdkfacts.py gives a class: its fields
// as inputs and as outputs, {name: type}.
type member struct {
	In  map[string]any `json:"in"`
	Out map[string]any `json:"out"`
	Old bool           `json:"old,omitempty"`
}

// fields gives a Terraform schema as sdkfacts.py gives a class: {name: type}.
// Of the outermost fields, those that nobody may set are no inputs.
func fields(m shim.SchemaMap, infos map[string]*tfbridge.SchemaInfo, inputs bool) map[string]any {
	out := map[string]any{}
	m.Range(func(name string, s shim.Schema) bool {
		if s.Removed() == "" && !(inputs && !s.Optional() && !s.Required()) {
			out[tfbridge.TerraformToPulumiNameV2(name, m, infos)] = fieldType(s, infos[name])
		}
		return true
	})
	return out
}

func fieldType(s shim.Schema, info *tfbridge.SchemaInfo) any {
	var elem any = "str"
	switch e := s.Elem().(type) {
	case shim.Schema:
		elem = fieldType(e, nil)
	case shim.Resource:
		elem = fields(e.Schema(), nil, false)
	}
	switch s.Type() {
	case shim.TypeBool:
		return "bool"
	case shim.TypeInt:
		return "int"
	case shim.TypeFloat:
		return "float"
	case shim.TypeString:
		return "str"
	case shim.TypeMap:
		return []any{"map", elem}
	}
	if tfbridge.IsMaxItemsOne(s, info) {
		return elem
	}
	return []any{"list", elem}
}

// membersOf gives the outermost fields of a resource or of a data source.
func membersOf(r shim.Resource, infos map[string]*tfbridge.SchemaInfo, function bool) member {
	in, out := fields(r.Schema(), infos, true), fields(r.Schema(), infos, false)
	if function {
		out["id"] = "str"
	}
	return member{In: in, Out: out}
}

// writeFields writes as JSON what the plugin serves, in the form of
// sdkfacts.py, and how many resources and data sources the Terraform provider has.
func writeFields(p tfbridge.ProviderInfo, to io.Writer) error {
	resources, functions := map[string]member{}, map[string]member{}
	for name, r := range p.Resources {
		resources[string(r.Tok)] = membersOf(p.P.ResourcesMap().Get(name), r.Fields, false)
	}
	for name, d := range p.DataSources {
		functions[string(d.Tok)] = membersOf(p.P.DataSourcesMap().Get(name), nil, true)
	}
	return json.NewEncoder(to).Encode(map[string]any{
		"resources": resources, "functions": functions,
		"provider": map[string]int{"resources": p.P.ResourcesMap().Len(), "functions": p.P.DataSourcesMap().Len()},
	})
}
