// SPDX-License-Identifier: MIT OR Apache-2.0
pragma solidity 0.8.30;

interface IPhalanxERC20 {
    function balanceOf(address holder) external view returns (uint256);
    function transfer(address to, uint256 value) external returns (bool);
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

/// @title The constant-product pool that the `amm` and `mixed` workloads trade in.
/// @notice Sells one of two tokens for the other at the price that keeps the product of the reserves, less a fee of
/// 0.3 % that stays in the pool. It pulls what is sold with an allowance and pays at once; there is no router. A genesis
/// provides the liquidity by writing storage: slot 0 and 1 the tokens, slot 2 both reserves and the number of swaps,
/// slot 3 the lock, which must hold one.
contract PhalanxPool {
    address private _token0;
    address private _token1;
    uint112 private _reserve0;
    uint112 private _reserve1;
    uint32 private _swaps;
    uint256 private _unlocked;

    event Swap(
        address indexed sender,
        uint256 amount0In,
        uint256 amount1In,
        uint256 amount0Out,
        uint256 amount1Out,
        address indexed to
    );
    event Sync(uint112 reserve0, uint112 reserve1);

    error PoolExpired(uint256 deadline, uint256 timestamp);
    error PoolLocked();
    error PoolUnknownToken(address token);
    error PoolNothingSold();
    error PoolNoLiquidity();
    error PoolInsufficientOutput(uint256 amountOut, uint256 minimum);
    error PoolTransferFailed(address token);
    error PoolBroken(uint256 balance0, uint256 balance1);
    error PoolFull(uint256 balance0, uint256 balance1);

    /// @dev The numerators over 1000 of what is left after the fee, and of the fee.
    uint256 private constant KEPT = 997;
    uint256 private constant FEE = 3;

    function tokens() external view returns (address, address) {
        return (_token0, _token1);
    }

    function reserves() external view returns (uint112, uint112, uint32) {
        return (_reserve0, _reserve1, _swaps);
    }

    /// @notice What a sale of `amountIn` brings at these reserves, rounded down.
    function quote(uint256 amountIn, uint256 reserveIn, uint256 reserveOut) public pure returns (uint256) {
        if (amountIn == 0) revert PoolNothingSold();
        if (reserveIn == 0 || reserveOut == 0) revert PoolNoLiquidity();
        uint256 kept = amountIn * KEPT;
        return kept * reserveOut / (reserveIn * 1000 + kept);
    }

    /// @notice Sells `amountIn` of `tokenIn`, which the caller holds and has approved, and pays `to` in the other token.
    /// @param minimum Reverts if the sale would bring less.
    /// @param deadline Reverts in blocks after this time, in seconds.
    function swapExactIn(address tokenIn, uint256 amountIn, uint256 minimum, address to, uint256 deadline)
        external
        returns (uint256 amountOut)
    {
        if (block.timestamp > deadline) revert PoolExpired(deadline, block.timestamp);
        if (_unlocked != 1) revert PoolLocked();
        _unlocked = 2;
        if (tokenIn == _token0) {
            amountOut = quote(amountIn, _reserve0, _reserve1);
            _exchange(tokenIn, amountIn, _token1, amountOut, minimum, to);
            _settle(amountIn, 0);
            emit Swap(msg.sender, amountIn, 0, 0, amountOut, to);
        } else if (tokenIn == _token1) {
            amountOut = quote(amountIn, _reserve1, _reserve0);
            _exchange(tokenIn, amountIn, _token0, amountOut, minimum, to);
            _settle(0, amountIn);
            emit Swap(msg.sender, 0, amountIn, amountOut, 0, to);
        } else {
            revert PoolUnknownToken(tokenIn);
        }
        _unlocked = 1;
    }

    function _exchange(
        address tokenIn,
        uint256 amountIn,
        address tokenOut,
        uint256 amountOut,
        uint256 minimum,
        address to
    ) private {
        if (amountOut == 0 || amountOut < minimum) revert PoolInsufficientOutput(amountOut, minimum);
        if (!IPhalanxERC20(tokenIn).transferFrom(msg.sender, address(this), amountIn)) {
            revert PoolTransferFailed(tokenIn);
        }
        if (!IPhalanxERC20(tokenOut).transfer(to, amountOut)) revert PoolTransferFailed(tokenOut);
    }

    /// @dev Trusts no token: the reserves become what the pool really holds, if that is worth no less than before.
    function _settle(uint256 amount0In, uint256 amount1In) private {
        uint256 balance0 = IPhalanxERC20(_token0).balanceOf(address(this));
        uint256 balance1 = IPhalanxERC20(_token1).balanceOf(address(this));
        if (balance0 > type(uint112).max || balance1 > type(uint112).max) revert PoolFull(balance0, balance1);
        uint256 adjusted0 = balance0 * 1000 - amount0In * FEE;
        uint256 adjusted1 = balance1 * 1000 - amount1In * FEE;
        if (adjusted0 * adjusted1 < uint256(_reserve0) * uint256(_reserve1) * 1000 ** 2) {
            revert PoolBroken(balance0, balance1);
        }
        _reserve0 = uint112(balance0);
        _reserve1 = uint112(balance1);
        unchecked {
            _swaps += 1;
        }
        emit Sync(uint112(balance0), uint112(balance1));
    }
}
