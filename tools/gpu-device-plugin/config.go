package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
)

// Resource is one extended resource of the node and the cards that count for it.
type Resource struct {
	// Name as pods ask for it, "nvidia.com/gpu".
	Name string `json:"name"`
	// Environment is the variable that lists a container's cards, "NVIDIA_VISIBLE_DEVICES".
	Environment string  `json:"environment"`
	Devices     []Match `json:"devices"`
}

// Config is the file that --config names.
type Config struct {
	Resources []Resource `json:"resources"`
}

var (
	resourceName    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
	environmentName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
	identifier      = regexp.MustCompile(`^[0-9a-f]{4}$`)
)

// LoadConfig reads and checks the configuration; the error names the file, the key and what is wrong.
func LoadConfig(file string) (*Config, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	config := &Config{}
	if err := decoder.Decode(config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	seen := map[string]bool{}
	for i, resource := range config.Resources {
		key := fmt.Sprintf("%s: resources[%d]", file, i)
		if !resourceName.MatchString(resource.Name) {
			return nil, fmt.Errorf("%s.name: %q is no extended resource, write vendor.example/name", key, resource.Name)
		}
		if seen[resource.Name] {
			return nil, fmt.Errorf("%s.name: %q stands twice", key, resource.Name)
		}
		seen[resource.Name] = true
		if !environmentName.MatchString(resource.Environment) {
			return nil, fmt.Errorf("%s.environment: %q is no name of a variable", key, resource.Environment)
		}
		if len(resource.Devices) == 0 {
			return nil, fmt.Errorf("%s.devices: name at least one vendor and device", key)
		}
		for j, match := range resource.Devices {
			if !identifier.MatchString(match.Vendor) || !identifier.MatchString(match.Device) {
				return nil, fmt.Errorf("%s.devices[%d]: %+v, write four lower-case hexadecimal digits each", key, j, match)
			}
		}
	}
	if len(config.Resources) == 0 {
		return nil, fmt.Errorf("%s: resources: name at least one", file)
	}
	return config, nil
}
