// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

/// @title The token that the `erc20` workload moves.
/// @notice A plain ERC-20 with the failure vocabulary of ERC-6093 and the storage layout that most deployed tokens
/// share: slot 0 balances, 1 allowances, 2 total supply, 3 name, 4 symbol. An analyser that knows that layout must find
/// the keys of this contract, and a genesis can write balances without a deployment.
contract PhalanxToken {
    mapping(address => uint256) private _balances;
    mapping(address => mapping(address => uint256)) private _allowances;
    uint256 private _totalSupply;
    string private _name;
    string private _symbol;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);

    error ERC20InsufficientBalance(address sender, uint256 balance, uint256 needed);
    error ERC20InsufficientAllowance(address spender, uint256 allowance, uint256 needed);
    error ERC20InvalidReceiver(address receiver);
    error ERC20InvalidSpender(address spender);

    constructor(string memory tokenName, string memory tokenSymbol, uint256 supply) {
        _name = tokenName;
        _symbol = tokenSymbol;
        _totalSupply = supply;
        _balances[msg.sender] = supply;
        emit Transfer(address(0), msg.sender, supply);
    }

    function name() external view returns (string memory) {
        return _name;
    }

    function symbol() external view returns (string memory) {
        return _symbol;
    }

    function decimals() external pure returns (uint8) {
        return 18;
    }

    function totalSupply() external view returns (uint256) {
        return _totalSupply;
    }

    function balanceOf(address holder) external view returns (uint256) {
        return _balances[holder];
    }

    function allowance(address holder, address spender) external view returns (uint256) {
        return _allowances[holder][spender];
    }

    function transfer(address to, uint256 value) external returns (bool) {
        _move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        if (spender == address(0)) revert ERC20InvalidSpender(spender);
        _allowances[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    /// @dev An allowance of 2^256 - 1 means "without limit" and is not reduced.
    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        uint256 left = _allowances[from][msg.sender];
        if (left != type(uint256).max) {
            if (left < value) revert ERC20InsufficientAllowance(msg.sender, left, value);
            _allowances[from][msg.sender] = left - value;
        }
        _move(from, to, value);
        return true;
    }

    /// @dev Debit before credit, so that a transfer to oneself changes nothing. Both are checked by the compiler.
    function _move(address from, address to, uint256 value) private {
        if (to == address(0)) revert ERC20InvalidReceiver(to);
        uint256 held = _balances[from];
        if (held < value) revert ERC20InsufficientBalance(from, held, value);
        _balances[from] = held - value;
        _balances[to] += value;
        emit Transfer(from, to, value);
    }
}
