{{/* The Kubernetes Job of one; the provisioner adds name, resources and the tenant. */}}
{{- define "htcondor.executionPoint" -}}
apiVersion: batch/v1
kind: Job
metadata:
  labels:
    {{- include "htcondor.labels" . | nindent 4 }}
    app.kubernetes.io/component: execution-point
spec:
  # an evicted one is replaced if its job still waits
  backoffLimit: 0
  ttlSecondsAfterFinished: 60
  template:
    metadata:
      labels:
        {{- include "htcondor.labels" . | nindent 8 }}
        app.kubernetes.io/component: execution-point
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ add (int64 .Values.execute.vacate) 3 }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.execute.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        seccompProfile:
          type: RuntimeDefault
      initContainers:
        # the daemons, for the job's image; the starter gives the job the groups of slot1. The provisioner sets TENANT_GROUP
        - name: programs
          {{- include "htcondor.image" . | nindent 10 }}
          command: [sh, -euc]
          args:
            - |
              cp --archive /opt/condor/. /programs
              [ -z "${TENANT_GROUP:-}" ] || echo "tenant:x:$TENANT_GROUP:slot1" >>/programs/etc/group
          securityContext:
            runAsUser: 0
            {{- include "htcondor.restricted" . | nindent 12 }}
          resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {memory: 64Mi}}
          volumeMounts:
            - {name: programs, mountPath: /programs}
      containers:
        # the provisioner sets the image of the job
        - name: condor
          {{- include "htcondor.image" . | nindent 10 }}
          command: [/opt/condor/bin/condor-entrypoint]
          args: [/opt/condor/sbin/condor_master, -f]
          env:
            - {name: CONDOR_CONFIG, value: /opt/condor/etc/condor_config}
            # jobs inherit them
            {{- range $name, $value := .Values.execute.environment }}
            - {name: {{ $name }}, value: {{ $value | quote }}}
            {{- end }}
          # root without rights on the node: the starter needs another user for the job than its own
          securityContext:
            runAsUser: 0
            runAsGroup: 0
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
              add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID]
          ports:
            - {name: condor, containerPort: 9618}
          readinessProbe:
            tcpSocket: {port: condor}
            periodSeconds: 5
          volumeMounts:
            {{- include "htcondor.mounts" . | nindent 12 }}
            {{- include "htcondor.scratchMounts" "condor" | nindent 12 }}
            - {name: execute, mountPath: /condor/execute}
            - {name: programs, mountPath: /opt/condor, readOnly: true}
            - {name: programs, mountPath: /etc/passwd, subPath: etc/passwd, readOnly: true}
            - {name: programs, mountPath: /etc/group, subPath: etc/group, readOnly: true}
      volumes:
        - name: config
          configMap: {name: {{ include "htcondor.fullname" . }}-execution-point}
        - name: secrets
          secret:
            secretName: {{ .Values.execute.existingSecret }}
            defaultMode: 0400
            items:
              - {key: execute-token, path: tokens/execute}
        - name: execute
          emptyDir: {sizeLimit: {{ .Values.execute.scratch }}}
        - name: programs
          emptyDir: {sizeLimit: 128Mi}
        {{- include "htcondor.scratch" "condor" | nindent 8 }}
{{- end -}}
