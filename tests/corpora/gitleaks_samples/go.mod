module gitleaks-samples

go 1.24.11

require github.com/zricethezav/gitleaks/v8 v8.30.1

require github.com/lucasjones/reggen v0.0.0-20200904144131-37ba4fa293bb // indirect
