// Command device-plugin-config reads configurations of NVIDIA's device plugin with the plugin's own parser and prints
// what it understood.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	config "github.com/NVIDIA/k8s-device-plugin/api/config/v1"
	"github.com/urfave/cli/v2"
)

func main() {
	app := &cli.App{
		Flags: []cli.Flag{&cli.StringFlag{Name: "config-file"}},
		Action: func(c *cli.Context) error {
			parsed, err := config.NewConfig(c, c.App.Flags)
			if err != nil {
				return err
			}
			config.DisableResourceNamingInConfig(parsed)
			return json.NewEncoder(os.Stdout).Encode(map[string]any{
				"strategy": parsed.Sharing.SharingStrategy(),
				"shared":   parsed.Sharing.ReplicatedResources(),
				"mig":      parsed.Flags.MigStrategy,
			})
		},
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
